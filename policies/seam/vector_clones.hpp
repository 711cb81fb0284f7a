// Marks a function of which the compiler makes one version for each vector unit of x86-64
// processors; the loader takes the version for the processor. On other processors the function has
// one version. Used by loops over the values of many ranks.
#pragma once

#if defined(__x86_64__)
#define ORRERY_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ORRERY_VECTORS
#endif
