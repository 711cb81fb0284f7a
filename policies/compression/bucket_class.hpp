// Names of the classes of gradient buckets in scenarios and reports. Constants; thread-safe.
#pragma once

#include <array>
#include <string_view>

#include "traces/workload/gradient_codec.hpp"

namespace orrery {

/// Names in the order of BucketClass.
inline constexpr std::array<std::string_view, kBucketClasses> kBucketClassNames{
    "matrices", "vectors", "embeddings"};

}  // namespace orrery
