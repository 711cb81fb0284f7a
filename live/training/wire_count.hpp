// Gradients of a run on the wire: bytes as the ranks' sockets count them, and the codes that were
// used. Fed by the live backend; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "policies/compression/codec_uses.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

/// Counter of sent bytes and codes.
class WireCount {
 public:
  explicit WireCount(const Model& model) : codes_(gradient_parts(model)) {}

  /// Records `bytes`: all bytes that a process has sent so far (`life` counts the processes of a
  /// rank). The largest report of a process counts: reports out of order have no effect.
  void record_sent_bytes(std::uint32_t rank, std::uint32_t life, std::uint64_t bytes);
  /// Adds a committed step in which each of `ranks` ranks had a gradient in these codes.
  void add_step(std::span<const CodecRule> rules, std::uint32_t ranks) {
    codes_.add_steps(rules, ranks);
  }
  /// Sets the bytes on the wire of all processes, and appends the codes: a second call appends them
  /// again. The counts stay.
  void fill(Report& report) const;

 private:
  /// keyed by rank and life
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> sent_;
  CodecUses codes_;
};

}  // namespace orrery::live
