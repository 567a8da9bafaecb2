/* Where records lie, on their way to be a string tensor. Their bytes must stay until they are copied.
 *
 * Strings that point into what was read would spare the copy, and are not safe: TensorFlow slices
 * tensors without copying, and moves strings out of a slice that is the last to hold its tensor, to
 * free them one by one. */
#ifndef TFIO_STORE_TF_RECORDS_H
#define TFIO_STORE_TF_RECORDS_H

#include "example/example.h"
#include "tensorflow/ops/part.h"

typedef struct record_list record_list;

/* Room for so many records. NULL when out of memory. */
record_list *records_new(size_t records, failure *why);

/* Appends a part's records; false if there is no room for them. */
bool records_add(record_list *list, const record_part *found, failure *why);

/* Appends one; likewise. */
bool records_put(record_list *list, ex_bytes record);

/* Puts the records into an order that the seed alone decides. */
void records_shuffle(record_list *list, uint64_t seed);

size_t records_count(const record_list *list);

const ex_bytes *records_all(const record_list *list);

/* Records are met in any order: so many before its turn, a record is called into the cache. */
enum { STRINGS_AHEAD = 8 };

/* Copies to as many strings, which are initialised: a part's records … */
void part_copy(const record_part *found, TF_TString *strings);
/* … or any. */
void strings_copy(const ex_bytes *bytes, size_t count, TF_TString *strings);

/* NULL is no list. */
void records_delete(record_list *list);

#endif
