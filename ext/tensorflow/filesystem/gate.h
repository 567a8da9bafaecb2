/* May a thread of TensorFlow's enter Python?
 *
 * TensorFlow's threads outlive the interpreter. A thread that asks for the GIL once finalisation
 * has begun is ended in the middle of TensorFlow's frames, which aborts the process ("terminate
 * called without an active exception"). So every way into Python passes this gate. The gate counts who
 * is inside. When the interpreter leaves, it closes the gate, and waits until nobody is inside.
 */
#ifndef TFIO_STORE_FS_GATE_H
#define TFIO_STORE_FS_GATE_H

#include <stdbool.h>

/* True: go in, and call fs_gate_leave afterwards. False: the interpreter is leaving. */
bool fs_gate_enter(void);
void fs_gate_leave(void);

/* Lets nobody in any more. */
void fs_gate_close(void);

/* Waits, without the GIL, until nobody is inside. False when the time is up first. */
bool fs_gate_drain(double seconds);

/* In a forked child: those who were inside are threads that do not exist here. */
void fs_gate_after_fork(void);

#endif
