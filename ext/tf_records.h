/* Records on their way to be a string tensor, whose strings point into the chunks that were read:
 * no record is copied, and a batch of any number of them is a few pieces of memory. */
#ifndef TFIO_STORE_TF_RECORDS_H
#define TFIO_STORE_TF_RECORDS_H

#include "tf_part.h"

typedef struct record_list record_list;

/* Room for so many records, out of so many parts. NULL when out of memory. */
record_list *records_new(size_t records, size_t parts, failure *why);

/* Appends a part's records. Its chunk goes over to the list if it is ours and mostly used; else the
 * records' bytes are copied. Either way the part is to be released. */
bool records_add(record_list *list, part *found, failure *why);

/* Puts the records into an order that the seed alone decides. */
void records_shuffle(record_list *list, uint64_t seed);

size_t records_count(const record_list *list);

/* The records as a string tensor, which the list becomes. NULL when out of memory: it is deleted. */
TF_Tensor *records_tensor(record_list *list);

/* NULL is no list. */
void records_delete(record_list *list);

#endif
