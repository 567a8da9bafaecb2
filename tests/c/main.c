/* Runs every C test with every CRC kernel that this CPU has. */
#include "check.h"
#include "crc32c/crc32c.h"

int failures = 0;

int main(void) {
    const crc32c_kernel *chosen = crc32c_active;
    for (size_t i = 0; crc32c_kernels[i] != NULL; i++) {
        if (!crc32c_kernels[i]->supported()) {
            printf("%s: not on this CPU\n", crc32c_kernels[i]->name);
            continue;
        }
        crc32c_active = crc32c_kernels[i];
        test_crc32c();
        test_tfrecord();
        test_tfrecord_file();
        printf("%s: %s%s\n", crc32c_active->name, failures ? "FAILED" : "ok",
               crc32c_active == chosen ? ", chosen here" : "");
    }
    test_inflate();
    printf("inflate: %s\n", failures ? "FAILED" : "ok");
    test_pack();
    printf("pack: %s\n", failures ? "FAILED" : "ok");
    test_pool();
    printf("pool: %s\n", failures ? "FAILED" : "ok");
    return failures != 0;
}
