#include "traces/workload/step_schedule.hpp"

#include <algorithm>

namespace orrery {
namespace {

using Kind = Pass::Kind;

std::vector<Pass> one_f_one_b(const PipelinePlace& at) {
  const std::uint32_t count = at.micro_batches;
  const std::uint32_t warm_up = std::min(at.stages - 1 - at.stage, count);
  std::vector<Pass> order;
  order.reserve(2 * std::size_t{count});
  for (std::uint32_t i = 0; i < warm_up; ++i) order.push_back({Kind::forward, i});
  for (std::uint32_t i = warm_up; i < count; ++i) {
    order.push_back({Kind::forward, i});
    order.push_back({Kind::backward, i - warm_up});
  }
  for (std::uint32_t i = count - warm_up; i < count; ++i) order.push_back({Kind::backward, i});
  return order;
}

/// The order of 1F1B; stage i puts i weight gradients off, to where it would wait for others at
/// the end. No more activations are held than under 1F1B.
std::vector<Pass> zero_bubble(const PipelinePlace& at) {
  std::vector<Pass> order;
  order.reserve(3 * std::size_t{at.micro_batches});
  std::uint32_t backward = 0, weights = 0;
  for (const Pass& pass : one_f_one_b(at)) {
    order.push_back(pass);
    if (pass.kind != Kind::backward) continue;
    if (++backward > at.stage) order.push_back({Kind::weights, weights++});
  }
  while (weights < at.micro_batches) order.push_back({Kind::weights, weights++});
  return order;
}

/// Forward passes of an interleaved stage, in order; backward ones with the chunks reversed.
std::vector<Pass> in_groups(const PipelinePlace& at, Kind kind, std::uint32_t largest) {
  std::vector<Pass> order;
  order.reserve(std::size_t{at.micro_batches} * at.chunks);
  for (std::uint32_t first = 0; first < at.micro_batches;) {
    const std::uint32_t left = at.micro_batches - first;
    const std::uint32_t size = left <= largest ? left : at.stages;
    for (std::uint32_t chunk = 0; chunk < at.chunks; ++chunk) {
      for (std::uint32_t i = 0; i < size; ++i) {
        const std::uint32_t of = kind == Kind::forward ? chunk : at.chunks - 1 - chunk;
        order.push_back({kind, first + i, of});
      }
    }
    first += size;
  }
  return order;
}

std::vector<Pass> interleaved(const PipelinePlace& at) {
  const std::uint32_t rest = at.micro_batches % at.stages;
  const bool few = at.micro_batches < at.stages;
  const std::uint32_t largest = few ? at.micro_batches : at.stages + rest;
  const std::vector<Pass> forward = in_groups(at, Kind::forward, largest);
  const std::vector<Pass> backward = in_groups(at, Kind::backward, largest);
  const std::size_t warm_up =
      few ? forward.size()
          : std::min<std::size_t>(forward.size(), (at.stages - 1 - at.stage) * 2 +
                                                      (at.chunks - 1) * largest);
  std::vector<Pass> order;
  order.reserve(2 * forward.size());
  order.assign(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (warm_up + i < forward.size()) order.push_back(forward[warm_up + i]);
    order.push_back(backward[i]);
  }
  return order;
}

}  // namespace

std::vector<Pass> pass_order(const PipelinePlace& place) {
  if (place.chunks > 1) {
    PipelinePlace followed = place;
    followed.micro_batches = std::max(place.micro_batches, place.order_of);
    std::vector<Pass> order = interleaved(followed);
    std::erase_if(order, [&](const Pass& pass) { return pass.micro_batch >= place.micro_batches; });
    return order;
  }
  return place.zero_bubble ? zero_bubble(place) : one_f_one_b(place);
}

}  // namespace orrery
