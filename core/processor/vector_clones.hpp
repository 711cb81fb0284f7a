// Marks a function of which the compiler makes one version for each vector unit of x86-64
// processors; the loader takes the version for the processor. All versions compute the same bits
// if the file is compiled with -ffp-contract=off. Other processors, sanitizers and Clang have one
// version, and so has a build that defines ORRERY_ONE_VERSION. Used by loops over many values.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(ORRERY_ONE_VERSION)
#define ORRERY_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ORRERY_VECTORS
#endif
