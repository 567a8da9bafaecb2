#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/ops/op_blocks.h"

enum { MAX_OUTPUTS = 4, MAX_ATTRIBUTES = 8 };

/* --- TfioStoreRaise ---------------------------------------------------------------------------- */

static void raise_error(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    op_call call;
    char text[sizeof call.why.message + 16], *message = NULL;
    if (op_call_begin(&call, context, 2) && op_input_text(&call, 0, 0, text, sizeof text) &&
        text[0]) {
        long code = strtol(text, &message, 10);
        bool known = TF_OK < code && code <= TF_UNAUTHENTICATED && *message == ':';
        fail(&call.why, known ? (TF_Code)code : TF_UNKNOWN, "%s", known ? message + 1 : text);
    }
    if (call.why.code == TF_OK && op_input_text(&call, 1, 0, text, sizeof text))
        op_output_text(&call, 0, text);
    op_call_end(&call);
}

/* --- registration ------------------------------------------------------------------------------ */

static void infer_unknown(TF_ShapeInferenceContext *context, TF_Status *status) {
    tf.ShapeInferenceContextSetUnknownShape(context, status);
}

static void infer_scalar(TF_ShapeInferenceContext *context, TF_Status *status) {
    TF_ShapeHandle *scalar = tf.ShapeInferenceContextScalar(context);
    tf.ShapeInferenceContextSetOutput(context, 0, scalar, status);
    tf.DeleteShapeHandle(scalar);
}

typedef struct {
    const char *name;
    const char *inputs[MAX_INPUTS];
    const char *outputs[MAX_OUTPUTS];
    const char *attributes[MAX_ATTRIBUTES];
    void (*infer)(TF_ShapeInferenceContext *context, TF_Status *status); /* NULL: unknown shapes */
    void *(*create)(TF_OpKernelConstruction *context); /* NULL: the kernel holds nothing */
    void (*compute)(void *kernel, TF_OpKernelContext *context);
    void (*destroy)(void *kernel);
} definition;

/* A kernel is made when an iterator is, in whatever process that runs. */
static void *reader_new(TF_OpKernelConstruction *context) {
    op_lent_forget();
    return op_settings_new(context);
}

static void *stream_new(TF_OpKernelConstruction *context) {
    op_python.forget_steps();
    return op_settings_new(context);
}

static void *nothing_new(TF_OpKernelConstruction *context) {
    (void)context;
    return NULL;
}

static void nothing_delete(void *kernel) { (void)kernel; }

#define COLUMNS_ATTRIBUTES "columns: string", "Tout: list(type)"
#define BATCH_ATTRIBUTES SETTINGS_ATTRIBUTES, "batch_size: int", COLUMNS_ATTRIBUTES
#define STREAM_INPUTS "files: string", "codecs: string", "version: string", "position: int64"

static const definition OPS[] = {
    {
        .name = "TfioStoreReadBlocks",
        .inputs = {REQUEST_INPUTS, "seed: int64"},
        .outputs = {"records: string", "error: string"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .create = reader_new,
        .compute = op_read_blocks,
        .destroy = op_settings_delete,
    },
    {
        .name = "TfioStoreReadExamples",
        .inputs = {REQUEST_INPUTS},
        .outputs = {"values: Tout"},
        .attributes = {BATCH_ATTRIBUTES},
        .create = op_examples_new,
        .compute = op_read_examples,
        .destroy = op_examples_delete,
    },
    {
        .name = "TfioStoreWindowRows",
        .inputs = {"window: int64", "seed: int64", "sizes: int64"},
        .outputs = {"rows: int64"},
        .compute = op_window_rows,
    },
    {
        .name = "TfioStoreBeginEpoch",
        .inputs = {"names: string", "all_names: string", "seeds: int64", "key: int64"},
        .outputs = {"epoch: int64"},
        .compute = op_begin_epoch,
    },
    {
        .name = "TfioStorePickRecords",
        .inputs = {"batch: int64", "epoch: int64", "table: int64", "spans: int64", "sizes: int64"},
        .outputs = {"wanted: int64", "fresh: int64"},
        .create = op_pick_new,
        .compute = op_pick_records,
        .destroy = op_pick_delete,
    },
    {
        .name = "TfioStoreReadPicked",
        .inputs = {REQUEST_INPUTS},
        .outputs = {"values: Tout"},
        .attributes = {BATCH_ATTRIBUTES},
        .create = op_examples_new,
        .compute = op_read_picked,
        .destroy = op_examples_delete,
    },
    {
        .name = "TfioStoreBeginBlocks",
        .inputs = {REQUEST_INPUTS},
        .outputs = {"wanted_out: int64"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .create = op_settings_new,
        .compute = op_begin_blocks,
        .destroy = op_settings_delete,
    },
    {
        .name = "TfioStoreAwaitBlocks",
        .inputs = {REQUEST_INPUTS, "attempt: int64"},
        .outputs = {"again: int64"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .infer = infer_scalar,
        .create = op_settings_new,
        .compute = op_await_blocks,
        .destroy = op_settings_delete,
    },
    {
        .name = "TfioStoreReadStream",
        .inputs = {STREAM_INPUTS},
        .outputs = {"records: string", "version_out: string", "next: int64", "error: string"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .create = stream_new,
        .compute = op_read_stream,
        .destroy = op_settings_delete,
    },
    {
        .name = "TfioStorePackStream",
        .inputs = {STREAM_INPUTS, "least: int64", "shown: string"},
        .outputs = {"pack: uint8", "version_out: string", "next: int64", "error: string"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .create = stream_new,
        .compute = op_pack_stream,
        .destroy = op_settings_delete,
    },
    {
        .name = "TfioStoreCutPack",
        .inputs = {"left: uint8", "pack: uint8", "sizes: int64"},
        .outputs = {"left_out: uint8", "cuts: int64"},
        .compute = op_cut_pack,
    },
    {
        .name = "TfioStoreReadPack",
        .inputs = {"left: uint8", "pack: uint8", "cut: int64"},
        .outputs = {"values: Tout"},
        .attributes = {COLUMNS_ATTRIBUTES},
        .create = op_pack_new,
        .compute = op_read_pack,
        .destroy = op_pack_delete,
    },
    {
        .name = "TfioStorePlainCodec",
        .inputs = {"files: string", "codec: string"},
        .outputs = {"plain: string", "other: bool"},
        .compute = op_plain_codec,
    },
    {
        .name = "TfioStoreRaise",
        .inputs = {"error: string", "later: string"},
        .outputs = {"error_out: string"},
        .infer = infer_scalar,
        .compute = raise_error,
    },
};

static void register_op(const definition *each, TF_Status *status) {
    TF_OpDefinitionBuilder *builder = tf.NewOpDefinitionBuilder(each->name);
    for (int i = 0; i < MAX_INPUTS && each->inputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddInput(builder, each->inputs[i]);
    for (int i = 0; i < MAX_OUTPUTS && each->outputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddOutput(builder, each->outputs[i]);
    for (int i = 0; i < MAX_ATTRIBUTES && each->attributes[i] != NULL; i++)
        tf.OpDefinitionBuilderAddAttr(builder, each->attributes[i]);
    tf.OpDefinitionBuilderSetShapeInferenceFunction(builder,
                                                    each->infer ? each->infer : infer_unknown);
    tf.RegisterOpDefinition(builder, status);
    if (tf.GetCode(status) != TF_OK) return;
    TF_KernelBuilder *kernel =
        tf.NewKernelBuilder(each->name, "CPU", each->create ? each->create : nothing_new,
                            each->compute, each->create ? each->destroy : nothing_delete);
    tf.RegisterKernelBuilder(each->name, kernel, status);
}

const char *op_kernels_register(void) {
    static char message[512];
    TF_Status *status = tf.NewStatus();
    message[0] = '\0';
    for (size_t i = 0; i < sizeof OPS / sizeof OPS[0] && message[0] == '\0'; i++) {
        register_op(&OPS[i], status);
        if (tf.GetCode(status) != TF_OK)
            snprintf(message, sizeof message, "%s: %s", OPS[i].name, tf.Message(status));
    }
    tf.DeleteStatus(status);
    return message[0] ? message : NULL;
}
