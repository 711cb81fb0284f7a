#include "live/training/wire_count.hpp"

#include <algorithm>

namespace orrery::live {

void WireCount::record_sent_bytes(std::uint32_t rank, std::uint32_t life, std::uint64_t bytes) {
  std::uint64_t& most = sent_[{rank, life}];
  most = std::max(most, bytes);
}

void WireCount::fill(Report& report) const {
  double bytes = 0;
  for (const auto& [seat, count] : sent_) bytes += static_cast<double>(count);
  report.set_bytes_on_wire(bytes);
  codes_.fill(report);
}

}  // namespace orrery::live
