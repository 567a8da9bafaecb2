#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/ops/op_blocks.h"

enum { MAX_OUTPUTS = 4, MAX_ATTRIBUTES = 8 };

/* --- TfioStoreRaise ---------------------------------------------------------------------------- */

static void raise_error(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    kernel_call now;
    char text[sizeof now.why.message + 16], *message = NULL;
    if (call_begin(&now, context, 2) && input_text(&now, 0, 0, text, sizeof text) && text[0]) {
        long code = strtol(text, &message, 10);
        bool known = TF_OK < code && code <= TF_UNAUTHENTICATED && *message == ':';
        fail(&now.why, known ? (TF_Code)code : TF_UNKNOWN, "%s", known ? message + 1 : text);
    }
    if (now.why.code == TF_OK && input_text(&now, 1, 0, text, sizeof text))
        output_text(&now, 0, text);
    call_end(&now);
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
    void (*infer)(TF_ShapeInferenceContext *context, TF_Status *status);
    void *(*create)(TF_OpKernelConstruction *context);
    void (*compute)(void *kernel, TF_OpKernelContext *context);
    void (*destroy)(void *kernel);
} op_definition;

/* A kernel is made when an iterator is, in whatever process that runs. */
static void *reader_new(TF_OpKernelConstruction *context) {
    lent_forget();
    return settings_new(context);
}

static void *stream_new(TF_OpKernelConstruction *context) {
    lender.forget_steps();
    return settings_new(context);
}

static void *nothing_new(TF_OpKernelConstruction *context) {
    (void)context;
    return NULL;
}

static void nothing_delete(void *kernel) { (void)kernel; }

#define STREAM_INPUTS "files: string", "codecs: string", "version: string", "position: int64"

static const op_definition OPS[] = {
    {
        .name = "TfioStoreReadBlocks",
        .inputs = {REQUEST_INPUTS, "seed: int64"},
        .outputs = {"records: string", "error: string"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .infer = infer_unknown,
        .create = reader_new,
        .compute = read_blocks,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStoreReadExamples",
        .inputs = {REQUEST_INPUTS},
        .outputs = {"values: Tout"},
        .attributes = {SETTINGS_ATTRIBUTES, "batch_size: int", "columns: string",
                       "Tout: list(type)"},
        .infer = infer_unknown,
        .create = examples_new,
        .compute = read_examples,
        .destroy = examples_delete,
    },
    {
        .name = "TfioStoreWindowRows",
        .inputs = {"window: int64", "seed: int64", "sizes: int64"},
        .outputs = {"rows: int64"},
        .infer = infer_unknown,
        .create = nothing_new,
        .compute = window_rows,
        .destroy = nothing_delete,
    },
    {
        .name = "TfioStoreBeginEpoch",
        .inputs = {"names: string", "all_names: string", "seeds: int64", "key: int64"},
        .outputs = {"epoch: int64"},
        .infer = infer_unknown,
        .create = nothing_new,
        .compute = begin_epoch,
        .destroy = nothing_delete,
    },
    {
        .name = "TfioStorePickRecords",
        .inputs = {"batch: int64", "epoch: int64", "table: int64", "spans: int64", "sizes: int64"},
        .outputs = {"wanted: int64", "fresh: int64"},
        .infer = infer_unknown,
        .create = pick_new,
        .compute = pick_records,
        .destroy = pick_delete,
    },
    {
        .name = "TfioStoreReadPicked",
        .inputs = {REQUEST_INPUTS},
        .outputs = {"values: Tout"},
        .attributes = {SETTINGS_ATTRIBUTES, "batch_size: int", "columns: string",
                       "Tout: list(type)"},
        .infer = infer_unknown,
        .create = examples_new,
        .compute = read_picked,
        .destroy = examples_delete,
    },
    {
        .name = "TfioStoreBeginBlocks",
        .inputs = {REQUEST_INPUTS},
        .outputs = {"wanted_out: int64"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .infer = infer_unknown,
        .create = settings_new,
        .compute = begin_blocks,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStoreAwaitBlocks",
        .inputs = {REQUEST_INPUTS, "attempt: int64"},
        .outputs = {"again: int64"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .infer = infer_scalar,
        .create = settings_new,
        .compute = await_blocks,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStoreReadStream",
        .inputs = {STREAM_INPUTS},
        .outputs = {"records: string", "version_out: string", "next: int64", "error: string"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .infer = infer_unknown,
        .create = stream_new,
        .compute = read_stream,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStorePackStream",
        .inputs = {STREAM_INPUTS, "least: int64", "shown: string"},
        .outputs = {"pack: uint8", "version_out: string", "next: int64", "error: string"},
        .attributes = {SETTINGS_ATTRIBUTES},
        .infer = infer_unknown,
        .create = stream_new,
        .compute = pack_stream,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStoreCutPack",
        .inputs = {"left: uint8", "pack: uint8", "sizes: int64"},
        .outputs = {"left_out: uint8", "cuts: int64"},
        .infer = infer_unknown,
        .create = nothing_new,
        .compute = cut_pack,
        .destroy = nothing_delete,
    },
    {
        .name = "TfioStoreReadPack",
        .inputs = {"left: uint8", "pack: uint8", "cut: int64"},
        .outputs = {"values: Tout"},
        .attributes = {"columns: string", "Tout: list(type)"},
        .infer = infer_unknown,
        .create = packed_new,
        .compute = read_pack,
        .destroy = packed_delete,
    },
    {
        .name = "TfioStorePlainCodec",
        .inputs = {"files: string", "codec: string"},
        .outputs = {"plain: string", "other: bool"},
        .infer = infer_unknown,
        .create = nothing_new,
        .compute = plain_codec,
        .destroy = nothing_delete,
    },
    {
        .name = "TfioStoreRaise",
        .inputs = {"error: string", "later: string"},
        .outputs = {"error_out: string"},
        .infer = infer_scalar,
        .create = nothing_new,
        .compute = raise_error,
        .destroy = nothing_delete,
    },
};

static void register_op(const op_definition *each, TF_Status *status) {
    TF_OpDefinitionBuilder *builder = tf.NewOpDefinitionBuilder(each->name);
    for (int i = 0; i < MAX_INPUTS && each->inputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddInput(builder, each->inputs[i]);
    for (int i = 0; i < MAX_OUTPUTS && each->outputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddOutput(builder, each->outputs[i]);
    for (int i = 0; i < MAX_ATTRIBUTES && each->attributes[i] != NULL; i++)
        tf.OpDefinitionBuilderAddAttr(builder, each->attributes[i]);
    tf.OpDefinitionBuilderSetShapeInferenceFunction(builder, each->infer);
    tf.RegisterOpDefinition(builder, status);
    if (tf.GetCode(status) != TF_OK) return;
    TF_KernelBuilder *kernel =
        tf.NewKernelBuilder(each->name, "CPU", each->create, each->compute, each->destroy);
    tf.RegisterKernelBuilder(each->name, kernel, status);
}

const char *tf_kernels_register(void) {
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
