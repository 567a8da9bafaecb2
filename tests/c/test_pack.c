/* Documents in rows: each value once, no row too full, and plans that do not fit their values. */
#include "check.h"
#include "loader/pack.h"

static int64_t *numbers(size_t count) {
    int64_t *found = calloc(count > 0 ? count : 1, sizeof *found);
    if (found == NULL) abort();
    return found;
}

/* Memory of exactly as many places as a plan may use. */
static pack_plan empty_plan(size_t most) {
    return (pack_plan){numbers(most), numbers(most), numbers(most + 1), 0, 0};
}

static void free_plan(pack_plan *plan) {
    free(plan->begins);
    free(plan->sizes);
    free(plan->splits);
}

static void check_rows(const pack_plan *plan, int64_t values, int64_t length) {
    size_t row_values = plan->rows * (size_t)length;
    uint16_t *from = calloc((size_t)values + 1, sizeof *from), *out = calloc(row_values + 1, 2);
    int32_t *segments = calloc(row_values + 1, 4), *positions = calloc(row_values + 1, 4);
    uint8_t *seen = calloc((size_t)values + 1, 1);
    const uint16_t padding = UINT16_MAX;
    if (!from || !out || !segments || !positions || !seen) abort();
    for (int64_t i = 0; i < values; i++) from[i] = (uint16_t)(i + 1);
    uint16_t *exact = (uint16_t *)(void *)copy_of(from, (size_t)values * 2);
    pack_part parts[] = {{NULL, 0, 0}, {(const uint8_t *)exact, 0, values}, {NULL, values, values}};
    CHECK(pack_check_rows(plan, 0, plan->rows, length) == PACK_OK);
    CHECK(pack_copy(plan, 0, plan->rows, parts, 3, 2, (const uint8_t *)&padding, length,
                    (uint8_t *)out) == PACK_OK);
    CHECK(pack_mark(plan, 0, plan->rows, length, segments, positions) == values);
    size_t met = 0;
    for (size_t i = 0; i < row_values; i++) {
        CHECK((out[i] != padding) == (segments[i] != 0));
        if (segments[i] == 0) continue;
        CHECK(!seen[out[i] - 1]);
        seen[out[i] - 1] = 1;
        met++;
        if (positions[i] > 0) {
            CHECK(out[i] == out[i - 1] + 1 && segments[i] == segments[i - 1]);
            CHECK(positions[i] == positions[i - 1] + 1);
        }
    }
    CHECK(met == (size_t)values);
    free(from);
    free(out);
    free(segments);
    free(positions);
    free(seen);
    free(exact);
}

static void gives_each_value_once(void) {
    for (uint32_t seed = 0; seed < 200; seed++) {
        uint8_t *random = noise(64, seed);
        size_t documents = random[0] % 60, most = 0;
        int64_t length = random[1] % 40 + 1;
        int64_t *splits = numbers(documents + 1);
        for (size_t i = 0; i < documents; i++)
            splits[i + 1] = splits[i] + random[i + 2] % (seed % 70 + 1);
        int64_t values = splits[documents];
        CHECK(pack_check(splits, documents, values, length, &most) == PACK_OK);
        pack_plan laid = empty_plan(most), fitted = empty_plan(most);
        pack_concat(splits, documents, length, &laid);
        CHECK(laid.rows == (size_t)((values + length - 1) / length));
        check_rows(&laid, values, length);
        CHECK(pack_first_fit(splits, documents, length, &fitted) == PACK_OK);
        CHECK(fitted.rows >= laid.rows);
        check_rows(&fitted, values, length);
        free_plan(&laid);
        free_plan(&fitted);
        free(splits);
        free(random);
    }
}

static void refuses_what_does_not_fit(void) {
    size_t most;
    const int64_t late[] = {1, 2}, falling[] = {0, 3, 2}, far[] = {0, INT64_MAX},
                  good[] = {0, 3, 5};
    CHECK(pack_check(late, 1, 2, 4, &most) == PACK_SPLITS);
    CHECK(pack_check(falling, 2, 2, 4, &most) == PACK_SPLITS);
    CHECK(pack_check(far, 1, 5, 4, &most) == PACK_SPLITS);
    CHECK(pack_check(good, 2, 5, 4, &most) == PACK_OK);
    pack_plan plan = empty_plan(most);
    pack_concat(good, 2, 4, &plan);
    uint8_t *values = noise(5, 1), out[8];
    pack_part parts[] = {{values, 0, 3}, {values + 3, 3, 5}};
    CHECK(pack_check_rows(&plan, 0, 2, 4) == PACK_OK);
    CHECK(pack_copy(&plan, 0, 2, parts, 2, 1, values, 4, out) == PACK_OK);
    CHECK(memcmp(out, values, 5) == 0);
    CHECK(pack_check_rows(&plan, 0, 3, 4) == PACK_PLAN);
    CHECK(pack_check_rows(&plan, 2, 1, 4) == PACK_PLAN);
    CHECK(pack_check_rows(&plan, 0, 2, 3) == PACK_PLAN);
    CHECK(pack_copy(&plan, 0, 2, parts, 1, 1, values, 4, out) == PACK_PLAN);
    parts[0].end = parts[1].begin = 2; /* a document that is in two parts */
    CHECK(pack_copy(&plan, 0, 2, parts, 2, 1, values, 4, out) == PACK_PLAN);
    plan.begins[0] = -1;
    CHECK(pack_copy(&plan, 0, 2, parts, 2, 1, values, 4, out) == PACK_PLAN);
    plan.begins[0] = INT64_MAX;
    CHECK(pack_copy(&plan, 0, 2, parts, 2, 1, values, 4, out) == PACK_PLAN);
    free(values);
    free_plan(&plan);
}

void test_pack(void) {
    gives_each_value_once();
    refuses_what_does_not_fit();
}
