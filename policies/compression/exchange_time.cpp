#include "policies/compression/exchange_time.hpp"

namespace orrery {

double exchange_seconds(const CodecRule& rule, std::uint64_t count, std::uint32_t ranks,
                        const LinkSpeed& link, const CodecThroughput& throughput) {
  if (ranks < 2) return 0;
  const double messages = (rule.codec == Codec::power_sgd ? 4.0 : 2.0) * (ranks - 1);
  const double bytes = exchange_bytes(rule, count, ranks);
  return messages * link.latency + (link.bandwidth > 0 ? bytes / link.bandwidth : 0) +
         exchange_codec_seconds(count, ranks, throughput);
}

}  // namespace orrery
