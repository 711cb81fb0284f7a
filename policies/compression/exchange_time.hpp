// How long the exchange of a gradient takes in a code, predicted from the link and the speed of the
// codec: what compression policies weigh codes by. Pure, thread-safe. Seconds and bytes.
#pragma once

#include <cstdint>

#include "traces/training/gradient_codec.hpp"

namespace orrery {

/// What a rank's link does: seconds of a small message, and bytes per second.
struct LinkSpeed {
  double latency = 0, bandwidth = 0;
};

/// Time of one exchange of `count` values that nothing hides: messages one after the other (as many
/// in the two steps of coded parts as in a ring, twice that in PowerSGD's two rings), bytes, and
/// codes. 0 for a rank alone.
double exchange_seconds(const CodecRule& rule, std::uint64_t count, std::uint32_t ranks,
                        const LinkSpeed& link, const CodecThroughput& throughput);

}  // namespace orrery
