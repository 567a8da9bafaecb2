/* Some of TensorFlow's functions call the filesystem with the GIL held, for example a CheckpointReader.
 * Bytes arrive by way of Python. So whoever waits for them must not keep the GIL. */
#ifndef TFIO_STORE_FS_GIL_H
#define TFIO_STORE_FS_GIL_H

/* Lets go of the GIL if this thread has it. Call it between gate_enter and gate_leave. */
void *fs_gil_release(void);

/* Takes back what fs_gil_release let go. */
void fs_gil_restore(void *released);

#endif
