#include "live/training/sharded_optimizer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Limit of the ranges of one rank; more come only from many consecutive distributions, and an
/// omitted range costs no more than a copy that other ranks hold too.
constexpr std::size_t kMostRanges = 32;

bool covers(const std::vector<Range>& ranges, const Range& inner) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return range.begin <= inner.begin && inner.end <= range.end;
  });
}

/// Ascending, without overlaps; neighbours become one.
std::vector<Range> merged(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.size() == 0; });
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> out;
  for (const Range& range : ranges) {
    if (!out.empty() && range.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, range.end);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

std::span<const std::byte> bytes_of(std::span<const float> values) { return std::as_bytes(values); }

}  // namespace

ShardedOptimizer::ShardedOptimizer(std::span<float> parameters, double learning_rate)
    : parameters_(parameters), learning_rate_(learning_rate) {}

std::vector<Range> ShardedOptimizer::shares(std::size_t total, std::uint32_t index,
                                            const Keepers& keepers) {
  const auto count = static_cast<std::uint32_t>(keepers.size());
  std::vector<Range> ranges{part_of(total, index, count)};
  for (std::uint32_t member = 0; member < count; ++member) {
    if (keepers[member] == index) ranges.push_back(part_of(total, member, count));
  }
  return merged(std::move(ranges));
}

ShardedOptimizer::Held ShardedOptimizer::cut_range(const TrainingState& state,
                                              const Range& range) const {
  Held held{range, Adam(range.size(), learning_rate_)};
  held.optimizer.set_state(state.optimizer_steps, state.mean, state.square);
  return held;
}

void ShardedOptimizer::restore_state(const TrainingState& whole) {
  ensure(whole.parameters.size() == parameters_.size(), "a state is that of this model");
  std::copy(whole.parameters.begin(), whole.parameters.end(), parameters_.begin());
  fresh_ = false;
  before_.clear();
  held_.clear();
  held_.push_back(cut_range(whole, {0, parameters_.size()}));
}

std::vector<Range> ShardedOptimizer::holdings() const {
  if (fresh_) return {{0, parameters_.size()}};
  std::vector<Range> ranges;
  for (const auto* parts : {&held_, &before_}) {
    for (const Held& part : *parts) ranges.push_back(part.range);
  }
  return merged(std::move(ranges));
}

TrainingState ShardedOptimizer::part(const Range& range) const {
  ensure(range.begin <= range.end && range.end <= parameters_.size(), "a range is in the model");
  TrainingState out;
  out.parameters.assign(parameters_.begin() + std::ptrdiff_t(range.begin),
                        parameters_.begin() + std::ptrdiff_t(range.end));
  out.mean.resize(range.size(), 0.0F);
  out.square.resize(range.size(), 0.0F);
  if (fresh_) return out;
  for (std::size_t at = range.begin; at < range.end;) {
    const Held* holder = nullptr;
    for (const auto* parts : {&held_, &before_}) {
      for (const Held& each : *parts) {
        if (!holder && each.range.begin <= at && at < each.range.end) holder = &each;
      }
    }
    ensure(holder != nullptr, "a part that is asked for is held");
    const std::size_t count = std::min(range.end, holder->range.end) - at;
    const std::size_t from = at - holder->range.begin, to = at - range.begin;
    std::copy_n(holder->optimizer.mean().begin() + std::ptrdiff_t(from), count,
                out.mean.begin() + std::ptrdiff_t(to));
    std::copy_n(holder->optimizer.square().begin() + std::ptrdiff_t(from), count,
                out.square.begin() + std::ptrdiff_t(to));
    out.optimizer_steps = holder->optimizer.steps();
    at += count;
  }
  return out;
}

void ShardedOptimizer::add_state(Checksum& sum) const {
  for (const Held& held : held_) {
    sum.add(held.optimizer.mean());
    sum.add(held.optimizer.square());
  }
}

std::size_t ShardedOptimizer::bytes() const {
  std::size_t elements = 0;
  for (const auto* parts : {&held_, &before_}) {
    for (const Held& part : *parts) elements += part.range.size();
  }
  return 2 * sizeof(float) * elements;
}

ShardedOptimizer::Holdings ShardedOptimizer::exchange_holdings(Fabric& fabric,
                                                               const std::vector<Range>& own) {
  std::array<std::uint64_t, 1 + 2 * kMostRanges> words{};
  words[0] = std::min(own.size(), kMostRanges);
  for (std::size_t i = 0; i < words[0]; ++i) {
    words[1 + 2 * i] = own[i].begin;
    words[2 + 2 * i] = own[i].end;
  }
  for (std::uint32_t step = 1; step < fabric.ranks(); ++step) {
    fabric.send_to((fabric.rank() + step) % fabric.ranks(), std::as_bytes(std::span(words)));
  }
  Holdings all(fabric.ranks());
  for (std::uint32_t rank = 0; rank < fabric.ranks(); ++rank) {
    std::array<std::uint64_t, 1 + 2 * kMostRanges> theirs = words;
    if (rank != fabric.rank()) {
      fabric.receive_from(rank, std::as_writable_bytes(std::span(theirs)));
    }
    ensure(theirs[0] <= kMostRanges, "a rank says what it holds");
    for (std::size_t i = 0; i < theirs[0]; ++i) {
      all[rank].push_back({theirs[1 + 2 * i], theirs[2 + 2 * i]});
    }
  }
  return all;
}

/// The state in pieces that lie within every range of before and after; the same on all ranks.
std::vector<ShardedOptimizer::Piece> ShardedOptimizer::pieces(const Holdings& holdings,
                                                              const Keepers& keepers) const {
  const auto ranks = static_cast<std::uint32_t>(holdings.size());
  std::vector<std::vector<Range>> wanted;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    wanted.push_back(shares(parameters_.size(), rank, keepers));
  }
  std::vector<std::size_t> cuts{0, parameters_.size()};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    cuts.push_back(part_of(parameters_.size(), rank, ranks).end);
    for (const Range& range : holdings[rank]) cuts.insert(cuts.end(), {range.begin, range.end});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Piece> out;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Piece piece{.range = {cuts[i], cuts[i + 1]}, .source = ranks, .takes_moments = {}};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const bool holds = covers(holdings[rank], piece.range);
      if (holds && piece.source == ranks) piece.source = rank;
      piece.takes_moments.push_back(covers(wanted[rank], piece.range) && !holds);
    }
    if (piece.source == ranks) {
      throw StateLost(fmt::format("the optimizer's state of parameters {} to {} has been lost",
                                  piece.range.begin, piece.range.end - 1));
    }
    out.push_back(std::move(piece));
  }
  return out;
}

void ShardedOptimizer::give_piece(Fabric& fabric, const Piece& piece) const {
  const TrainingState state = part(piece.range);
  for (std::uint32_t step = 1; step < fabric.ranks(); ++step) {
    const std::uint32_t to = (fabric.rank() + step) % fabric.ranks();
    fabric.send_to(to, bytes_of(state.parameters));
    if (!piece.takes_moments[to]) continue;
    fabric.send_to(to, std::as_bytes(std::span(&state.optimizer_steps, 1)));
    fabric.send_to(to, bytes_of(state.mean));
    fabric.send_to(to, bytes_of(state.square));
  }
}

TrainingState ShardedOptimizer::take_piece(Fabric& fabric, const Piece& piece) {
  fabric.receive_from(piece.source, std::as_writable_bytes(parameters_.subspan(
                                        piece.range.begin, piece.range.size())));
  TrainingState state;
  if (!piece.takes_moments[fabric.rank()]) return state;
  state.mean.resize(piece.range.size());
  state.square.resize(piece.range.size());
  fabric.receive_from(piece.source, std::as_writable_bytes(std::span(&state.optimizer_steps, 1)));
  fabric.receive_from(piece.source, std::as_writable_bytes(std::span(state.mean)));
  fabric.receive_from(piece.source, std::as_writable_bytes(std::span(state.square)));
  return state;
}

void ShardedOptimizer::deal_state(Fabric& fabric, bool current, const Keepers& keepers) {
  ensure(keepers.size() == fabric.ranks(), "every member's part has a keeper");
  const std::vector<Range> own = current ? holdings() : std::vector<Range>();
  const std::vector<Range> wanted = shares(parameters_.size(), fabric.rank(), keepers);
  std::vector<Held> next;
  for (const Piece& piece : pieces(exchange_holdings(fabric, own), keepers)) {
    TrainingState state;
    if (piece.source == fabric.rank()) {
      give_piece(fabric, piece);
    } else {
      state = take_piece(fabric, piece);
    }
    if (!covers(wanted, piece.range)) continue;
    if (!piece.takes_moments[fabric.rank()]) state = part(piece.range);
    next.push_back(cut_range(state, piece.range));
  }
  std::vector<Held> before;
  if (!fresh_ && current) {
    for (const Range& range : own) before.push_back(cut_range(part(range), range));
  }
  held_ = std::move(next);
  before_ = std::move(before);
  fresh_ = false;
}

void ShardedOptimizer::update(std::span<const float> gradient, float scale, double rate_factor) {
  ensure(!held_.empty() || parameters_.empty(), "the state has been dealt");
  before_.clear();
  for (Held& part : held_) {
    part.optimizer.update(parameters_.subspan(part.range.begin, part.range.size()),
                          gradient.subspan(part.range.begin, part.range.size()), scale,
                          rate_factor);
  }
}

void ShardedOptimizer::gather_parameters(Fabric& fabric) {
  const auto part = [&](std::uint32_t rank) {
    const Range range = part_of(parameters_.size(), rank, fabric.ranks());
    return parameters_.subspan(range.begin, range.size());
  };
  for (std::uint32_t step = 1; step < fabric.ranks(); ++step) {
    fabric.send_to((fabric.rank() + step) % fabric.ranks(), bytes_of(part(fabric.rank())));
  }
  for (std::uint32_t rank = 0; rank < fabric.ranks(); ++rank) {
    if (rank == fabric.rank()) continue;
    fabric.receive_from(rank, std::as_writable_bytes(part(rank)));
  }
}

}  // namespace orrery::live
