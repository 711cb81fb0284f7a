// Prediction of the duration of a gradient exchange with a code, from the speeds of link and codec.
// Compression policies compare codes by this duration. Pure function; thread-safe. Seconds and
// bytes.
#pragma once

#include <cstdint>

#include "traces/workload/gradient_codec.hpp"

namespace orrery {

/// Speed of a rank's link: `latency` in seconds of a small message, `bandwidth` in bytes per second
/// (0: transfers take no time).
struct LinkSpeed {
  double latency = 0, bandwidth = 0;
};

/// Returns the predicted duration, in seconds, of an exchange of `count` gradient values among
/// `ranks` ranks that no computation hides: the latency of the sequential messages, the transfer of
/// the bytes, and the coding; 0 for fewer than two ranks. An uncompressed exchange is a ring of N
/// ranks with 2 (N - 1) sequential messages and 2 (N - 1) / N of the bytes of the gradient. A coded
/// exchange has as many messages; PowerSGD, with two rings, has twice as many.
double exchange_seconds(const CodecRule& rule, std::uint64_t count, std::uint32_t ranks,
                        const LinkSpeed& link, const CodecThroughput& throughput);

}  // namespace orrery
