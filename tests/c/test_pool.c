/* The pool: reuse, its bounds, and many threads at once. */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "memory/pool.h"

static void reuses_what_fits(void) {
    size_t capacity, again;
    void *first = pool_take(100000, &capacity);
    CHECK(capacity >= 100000);
    pool_give(first, capacity);
    CHECK(pool_kept() >= capacity);
    void *second = pool_take(90000, &again);
    CHECK(second == first && again == capacity);
    void *third = pool_take(100000, &capacity);
    CHECK(third != second);
    pool_give(second, again);
    pool_give(third, capacity);
}

static void keeps_within_its_limit(void) {
    void *taken[100];
    size_t capacities[100];
    for (int i = 0; i < 100; i++) taken[i] = pool_take((size_t)1 << 20, &capacities[i]);
    for (int i = 0; i < 100; i++) pool_give(taken[i], capacities[i]);
    CHECK(pool_kept() > 0 && pool_kept() <= POOL_LIMIT);
}

static void keeps_less_beside_what_is_used(void) {
    void *used[100], *taken[100];
    size_t capacities[200];
    for (int i = 0; i < 100; i++) used[i] = pool_take((size_t)1 << 20, &capacities[i]);
    for (int i = 0; i < 100; i++) taken[i] = pool_take((size_t)1 << 20, &capacities[100 + i]);
    for (int i = 0; i < 100; i++) pool_give(taken[i], capacities[100 + i]);
    CHECK(pool_kept() > 0 && pool_kept() <= POOL_LEAST);
    for (int i = 0; i < 100; i++) pool_give(used[i], capacities[i]);
    CHECK(pool_kept() > POOL_LEAST && pool_kept() <= POOL_LIMIT);
}

static void what_is_kept_in_other_sizes_makes_room(void) {
    void *small[60], *large[6];
    size_t capacities[60], capacity[6];
    for (int i = 0; i < 60; i++) small[i] = pool_take((size_t)1 << 20, &capacities[i]);
    for (int i = 0; i < 60; i++) pool_give(small[i], capacities[i]);
    CHECK(pool_kept() > POOL_LEAST);
    for (int i = 0; i < 6; i++) large[i] = pool_take((size_t)10 << 20, &capacity[i]);
    CHECK(pool_kept() <= POOL_LEAST);
    for (int i = 0; i < 6; i++) pool_give(large[i], capacity[i]);
    CHECK(pool_kept() <= POOL_LIMIT);
}

static void serves_readers_within_their_budgets(void) {
    const size_t mib = (size_t)1 << 20;
    void *taken[100];
    size_t capacities[100];
    pool_serve(64, 16 * mib); /* no more than it is anyhow */
    keeps_within_its_limit();
    pool_serve(5, 200 * mib);
    for (int i = 0; i < 100; i++) taken[i] = pool_take(mib, &capacities[i]);
    for (int i = 0; i < 100; i++) pool_give(taken[i], capacities[i]);
    CHECK(pool_kept() > POOL_LIMIT && pool_kept() <= 5 * POOL_LIMIT_EACH);
}

static void small_huge_and_impossible(void) {
    const size_t sizes[] = {0, 10, POOL_LIMIT};
    size_t kept = pool_kept();
    for (int i = 0; i < 3; i++) {
        size_t capacity;
        void *memory = pool_take(sizes[i], &capacity);
        CHECK(memory != NULL && capacity >= sizes[i]);
        pool_give(memory, capacity);
        if (sizes[i] == POOL_LIMIT && kept > POOL_LEAST) /* for which other sizes made room */
            CHECK(pool_kept() > 0 && pool_kept() <= POOL_LEAST);
        else
            CHECK(pool_kept() == kept);
    }
    size_t capacity;
    CHECK(pool_take(SIZE_MAX, &capacity) == NULL);
    pool_give(NULL, 0);
}

static void *churn(void *seed) {
    size_t state = (size_t)(uintptr_t)seed;
    for (int i = 0; i < 20000; i++) {
        size_t capacity;
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t size = (state >> 40) % 200000 + 1;
        uint8_t *memory = pool_take(size, &capacity);
        memory[0] = memory[size - 1] = (uint8_t)i;
        CHECK(capacity >= size && memory[0] == (uint8_t)i);
        pool_give(memory, capacity);
    }
    return NULL;
}

static void many_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(pool_kept() <= POOL_LIMIT);
}

static size_t lent_takes, lent_gives;

static void *lent_take(size_t size, size_t *capacity) {
    lent_takes++;
    *capacity = size;
    return malloc(size);
}

static void lent_give(void *memory, size_t capacity) {
    (void)capacity;
    lent_gives++;
    free(memory);
}

static size_t lent_kept(void) { return 77; }

static void a_lent_pool_serves(void) {
    static const pool_functions lent = {lent_take, lent_give, lent_kept};
    const pool_functions *own = pool_lend();
    size_t first_capacity, capacity;
    void *first = pool_take(100000, &first_capacity);
    pool_borrow(&lent);
    void *second = pool_take(100000, &capacity);
    CHECK(pool_lend() == &lent && lent_takes == 1 && pool_kept() == 77);
    pool_give(first, first_capacity); /* which the other pool served */
    pool_give(second, capacity);
    CHECK(lent_gives == 2);
    pool_borrow(own);
}

void test_pool(void) {
    reuses_what_fits();
    keeps_within_its_limit();
    keeps_less_beside_what_is_used();
    what_is_kept_in_other_sizes_makes_room();
    small_huge_and_impossible();
    many_threads();
    serves_readers_within_their_budgets();
    a_lent_pool_serves();
}
