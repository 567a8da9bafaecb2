#include "tensorflow/failure.h"

#include <stdarg.h>
#include <stdio.h>

bool fail(failure *why, TF_Code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    why->code = code;
    vsnprintf(why->message, sizeof why->message, format, arguments);
    va_end(arguments);
    return false;
}
