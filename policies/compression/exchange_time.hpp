// Predicted duration of a gradient exchange with a code, from the link and the codec's speed: the
// basis on which compression policies compare codes. Pure, thread-safe. Seconds and bytes.
#pragma once

#include <cstdint>

#include "traces/training/gradient_codec.hpp"

namespace orrery {

/// Speed of a rank's link: seconds of a small message, and bytes per second.
struct LinkSpeed {
  double latency = 0, bandwidth = 0;
};

/// Returns the duration of one exposed exchange of `count` values: sequential messages (as many in
/// the two steps of coded parts as in a ring, twice as many in PowerSGD's two rings), bytes, and
/// coding; 0 for a single rank. For example, a ring of N ranks sends 2 (N - 1) messages one after
/// the other and 2 (N - 1) / N of the bytes.
double exchange_seconds(const CodecRule& rule, std::uint64_t count, std::uint32_t ranks,
                        const LinkSpeed& link, const CodecThroughput& throughput);

}  // namespace orrery
