// Names of the classes of gradient buckets, as scenarios and reports write them. Thread-safe.
#pragma once

#include <array>
#include <string_view>

#include "traces/training/gradient_codec.hpp"

namespace orrery {

/// In the order of BucketClass.
inline constexpr std::array<std::string_view, kBucketClasses> kBucketClassNames{
    "matrices", "vectors", "embeddings"};

}  // namespace orrery
