/* May a thread of TensorFlow's enter Python?
 *
 * TensorFlow's threads outlive the interpreter. A thread that asks for the GIL once finalisation
 * has begun is ended in the middle of TensorFlow's frames, which aborts the process ("terminate
 * called without an active exception"). So every way into Python passes this gate. The gate counts who
 * is inside. When the interpreter leaves, it closes the gate, and waits until nobody is inside.
 * Who comes later is CANCELLED: every dataset of TensorFlow's hands that error on, and goes on no more.
 */
#ifndef TFIO_STORE_TF_GATE_H
#define TFIO_STORE_TF_GATE_H

#include <stdbool.h>

#define GATE_CLOSED "the Python interpreter is shutting down"

/* True: go in, and call gate_leave afterwards. False: the interpreter is leaving. */
bool gate_enter(void);
void gate_leave(void);

/* Lets nobody in any more. */
void gate_close(void);

/* Waits, without the GIL, until nobody is inside. False when the time is up first. */
bool gate_drain(double seconds);

/* In a forked child: those who were inside are threads that do not exist here. */
void gate_after_fork(void);

#endif
