#include "tensorflow/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Takes [from, to) out of a text. */
static void cut(char *from, const char *to) { memmove(from, to, strlen(to) + 1); }

static bool is_http(const char *text, const char *colon) {
    const size_t before = (size_t)(colon - text);
    return (before >= 4 && strncasecmp(colon - 4, "http", 4) == 0) ||
           (before >= 5 && strncasecmp(colon - 5, "https", 5) == 0);
}

/* A URL may carry a password before its host, and a signature in its query. Errors show neither. */
static void hide_secrets(char *text) {
    for (char *colon = text; (colon = strstr(colon, "://")) != NULL; colon++) {
        const bool http = is_http(text, colon);
        char *host = colon + 3, *end = host + strcspn(host, "/ \n");
        for (char *at = end; at > host; at--)
            if (at[-1] == '@' && (http || memchr(host, ':', (size_t)(at - host)) != NULL)) {
                cut(host, at);
                break;
            }
        if (!http) continue;
        end = strstr(host, ": "); /* where the text goes on; a URL may hold spaces */
        if (end == NULL) end = host + strlen(host);
        char *query = memchr(host, '?', (size_t)(end - host));
        if (query != NULL) cut(query, end);
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
