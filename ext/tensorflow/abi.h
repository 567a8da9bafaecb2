/* The part of TensorFlow's C ABI that this library calls, declared here so that it builds without
 * TensorFlow and one binary serves every TensorFlow from 2.16 on.
 *
 * The functions are looked up at run time, in the TensorFlow that the process has loaded already.
 * The dynamic linker alone would not find them, because Python loads it with local symbols. They are
 * called through `tf`:  tf.SetStatus(status, TF_DATA_LOSS, "...").
 *
 * Signatures follow tensorflow/c/{tf_status,tf_tensor,tf_tstring,ops,kernels}.h and
 * tensorflow/c/experimental/filesystem/filesystem_interface.h, the same in 2.16 and 2.21.
 */
#ifndef TFIO_STORE_TF_ABI_H_
#define TFIO_STORE_TF_ABI_H_

#include <stddef.h>
#include <stdint.h>

typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
typedef struct TF_ShapeHandle TF_ShapeHandle;

/* One element of a string tensor. Opaque but for its size, which tensors are made of. */
typedef struct TF_TString {
    uint64_t opaque[3];
} TF_TString;

typedef enum TF_Code {
    TF_OK = 0,
    TF_CANCELLED = 1,
    TF_UNKNOWN = 2,
    TF_INVALID_ARGUMENT = 3,
    TF_DEADLINE_EXCEEDED = 4,
    TF_NOT_FOUND = 5,
    TF_ALREADY_EXISTS = 6,
    TF_PERMISSION_DENIED = 7,
    TF_RESOURCE_EXHAUSTED = 8,
    TF_FAILED_PRECONDITION = 9,
    TF_ABORTED = 10,
    TF_OUT_OF_RANGE = 11,
    TF_UNIMPLEMENTED = 12,
    TF_INTERNAL = 13,
    TF_UNAVAILABLE = 14,
    TF_DATA_LOSS = 15,
    TF_UNAUTHENTICATED = 16,
} TF_Code;

typedef enum TF_DataType {
    TF_FLOAT = 1,
    TF_INT32 = 3,
    TF_UINT8 = 4,
    TF_STRING = 7,
    TF_INT64 = 9,
    TF_BOOL = 10,
} TF_DataType;

/* F(return type, name without "TF_", parameters) */
#define TF_ABI_FUNCTIONS(F)                                                                        \
    F(TF_Status *, NewStatus, (void))                                                              \
    F(void, DeleteStatus, (TF_Status * status))                                                    \
    F(void, SetStatus, (TF_Status * status, TF_Code code, const char *message))                    \
    F(TF_Code, GetCode, (const TF_Status *status))                                                 \
    F(const char *, Message, (const TF_Status *status))                                            \
    F(void, StringCopy, (TF_TString * string, const char *data, size_t size))                      \
    F(const char *, StringGetDataPointer, (const TF_TString *string))                              \
    F(size_t, StringGetSize, (const TF_TString *string))                                           \
    F(void *, TensorData, (const TF_Tensor *tensor))                                               \
    F(int, NumDims, (const TF_Tensor *tensor))                                                     \
    F(int64_t, Dim, (const TF_Tensor *tensor, int index))                                          \
    F(TF_DataType, TensorType, (const TF_Tensor *tensor))                                          \
    F(void, DeleteTensor, (TF_Tensor * tensor))                                                    \
    F(TF_OpDefinitionBuilder *, NewOpDefinitionBuilder, (const char *op))                          \
    F(void, RegisterOpDefinition, (TF_OpDefinitionBuilder * builder, TF_Status * status))          \
    F(void, OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder * builder, const char *spec))      \
    F(void, OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder * builder, const char *spec))     \
    F(void, OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder * builder, const char *spec))    \
    F(void, OpDefinitionBuilderSetShapeInferenceFunction,                                          \
      (TF_OpDefinitionBuilder * builder,                                                           \
       void (*infer)(TF_ShapeInferenceContext * context, TF_Status * status)))                     \
    F(TF_ShapeHandle *, NewShapeHandle, (void))                                                    \
    F(void, DeleteShapeHandle, (TF_ShapeHandle * shape))                                           \
    F(TF_ShapeHandle *, ShapeInferenceContextScalar, (TF_ShapeInferenceContext * context))         \
    F(TF_ShapeHandle *, ShapeInferenceContextVectorFromSize,                                       \
      (TF_ShapeInferenceContext * context, size_t size))                                           \
    F(void, ShapeInferenceContextWithRank,                                                         \
      (TF_ShapeInferenceContext * context, TF_ShapeHandle * shape, int64_t rank,                   \
       TF_ShapeHandle * result, TF_Status * status))                                               \
    F(void, ShapeInferenceContextSetUnknownShape,                                                  \
      (TF_ShapeInferenceContext * context, TF_Status * status))                                    \
    F(void, ShapeInferenceContextSetOutput,                                                        \
      (TF_ShapeInferenceContext * context, int index, TF_ShapeHandle *shape, TF_Status *status))   \
    F(TF_KernelBuilder *, NewKernelBuilder,                                                        \
      (const char *op, const char *device, void *(*create)(TF_OpKernelConstruction * context),     \
       void (*compute)(void *kernel, TF_OpKernelContext *context), void (*destroy)(void *kernel))) \
    F(void, RegisterKernelBuilder,                                                                 \
      (const char *name, TF_KernelBuilder *builder, TF_Status *status))                            \
    F(void, OpKernelConstruction_GetAttrSize,                                                      \
      (TF_OpKernelConstruction * context, const char *attr, int32_t *list_size,                    \
       int32_t *total_size, TF_Status *status))                                                    \
    F(void, OpKernelConstruction_GetAttrString,                                                    \
      (TF_OpKernelConstruction * context, const char *attr, char *value, size_t max_length,        \
       TF_Status *status))                                                                         \
    F(void, OpKernelConstruction_GetAttrInt64,                                                     \
      (TF_OpKernelConstruction * context, const char *attr, int64_t *value, TF_Status *status))    \
    F(void, OpKernelConstruction_GetAttrBool,                                                      \
      (TF_OpKernelConstruction * context, const char *attr, unsigned char *value,                  \
       TF_Status *status))                                                                         \
    F(void, OpKernelConstruction_Failure, (TF_OpKernelConstruction * context, TF_Status * status)) \
    F(void, OpKernelContext_Failure, (TF_OpKernelContext * context, TF_Status * status))           \
    F(void, GetInput,                                                                              \
      (TF_OpKernelContext * context, int index, TF_Tensor **tensor, TF_Status *status))            \
    F(int, NumOutputs, (TF_OpKernelContext * context))                                             \
    F(TF_DataType, ExpectedOutputDataType, (TF_OpKernelContext * context, int index))              \
    F(TF_Tensor *, AllocateOutput,                                                                 \
      (TF_OpKernelContext * context, int index, TF_DataType type, const int64_t *dims,             \
       int num_dims, size_t nbytes, TF_Status *status))                                            \
    F(void, RegisterFilesystemPlugin, (const char *path, TF_Status *status))

struct tf_abi {
#define TF_ABI_FIELD(result, name, parameters) result(*name) parameters;
    TF_ABI_FUNCTIONS(TF_ABI_FIELD)
#undef TF_ABI_FIELD
};

extern struct tf_abi tf;

/* Fill `tf`. NULL on success. Otherwise the name of the library or function that is missing, and `tf`
 * must not be used. Import TensorFlow before. Call it with the GIL held, as often as you like. */
const char *tf_abi_load(void);

#endif
