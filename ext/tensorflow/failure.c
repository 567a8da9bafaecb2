#include "tensorflow/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Takes [from, to) out of a text. */
static void cut(char *from, const char *to) { memmove(from, to, strlen(to) + 1); }

static bool is_http(const char *text, const char *colon) {
    for (const char *scheme = colon; scheme > text && scheme[-1] != ' '; scheme--)
        if (strncmp(scheme - 1, "http", 4) == 0) return true;
    return false;
}

/* A URL may carry a password before its host, and a signature in its query. Errors show neither. */
static void hide_secrets(char *text) {
    for (char *colon = text; (colon = strstr(colon, "://")) != NULL; colon++) {
        char *host = colon + 3, *end = host + strcspn(host, "/ \n");
        for (char *at = end; at > host; at--)
            if (at[-1] == '@') {
                cut(host, at);
                break;
            }
        end = host + strcspn(host, " \n");
        if (end > host && end[-1] == ':') end--; /* the text's own */
        char *query = host + strcspn(host, "? \n");
        if (*query == '?' && query < end && is_http(text, colon)) cut(query, end);
    }
}

bool fail(failure *why, TF_Code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    why->code = code;
    vsnprintf(why->message, sizeof why->message, format, arguments);
    va_end(arguments);
    hide_secrets(why->message);
    return false;
}
