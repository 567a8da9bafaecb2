#include <Python.h>

#include "tensorflow/filesystem/gil.h"

void *fs_gil_release(void) { return PyGILState_Check() ? PyEval_SaveThread() : NULL; }

void fs_gil_restore(void *released) {
    if (released) PyEval_RestoreThread(released);
}
