#include "live/training/sharded_optimizer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/training/device.hpp"

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

/// Neighbours on the ring around which holdings and pieces are passed: each link costs a handshake,
/// and 8 ranks have 56 links to each other but 8 around the ring.
std::uint32_t next_of(const Fabric& fabric) { return (fabric.rank() + 1) % fabric.ranks(); }
std::uint32_t previous_of(const Fabric& fabric) {
  return (fabric.rank() + fabric.ranks() - 1) % fabric.ranks();
}

/// Head of a message with a piece of the state.
struct PieceHead {
  StateChecksums sums;
  std::uint64_t optimizer_steps = 0;
};

/// Returns the size of a message about a range, in bytes.
std::size_t message_size(const Range& range, bool has_moments) {
  return sizeof(PieceHead) + (has_moments ? 3 : 1) * range.size() * sizeof(float);
}

/// Returns the message with a piece of the state: head, parameters and perhaps moments.
std::vector<std::byte> encode_piece(const TrainingState& state, const StateChecksums& sums,
                                    bool has_moments) {
  const PieceHead head{.sums = sums, .optimizer_steps = state.optimizer_steps};
  std::vector<std::byte> message;
  message.reserve(message_size({0, state.parameters.size()}, has_moments));
  const auto append = [&message](std::span<const std::byte> bytes) {
    message.insert(message.end(), bytes.begin(), bytes.end());
  };
  append(std::as_bytes(std::span(&head, 1)));
  append(std::as_bytes(std::span(state.parameters)));
  if (!has_moments) return message;
  append(std::as_bytes(std::span(state.mean)));
  append(std::as_bytes(std::span(state.square)));
  return message;
}

/// Receives a piece of the state from `source`, with the sender's checksums.
TrainingState receive_piece(Fabric& fabric, std::uint32_t source, const Range& range,
                            bool has_moments, StateChecksums& sums) {
  std::vector<std::byte> message(message_size(range, has_moments));
  fabric.receive_from(source, message);
  PieceHead head;
  std::memcpy(&head, message.data(), sizeof head);
  std::size_t at = sizeof head;
  const auto read = [&](std::vector<float>& values) {
    values.resize(range.size());
    if (values.empty()) return;
    std::memcpy(values.data(), message.data() + at, values.size() * sizeof(float));
    at += values.size() * sizeof(float);
  };
  TrainingState state{.optimizer_steps = head.optimizer_steps};
  read(state.parameters);
  Checksum parameters, moments;
  parameters.add(state.parameters, range.begin);
  bool is_intact = parameters == head.sums.parameters;
  if (has_moments) {
    read(state.mean);
    read(state.square);
    moments.add_moments(state.mean, state.square, range.begin);
    is_intact = is_intact && moments == head.sums.moments;
  }
  if (!is_intact) throw FabricBroken("a part of the training state was damaged on its way");
  sums = head.sums;
  return state;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(std::span<float> parameters, double learning_rate)
    : parameters_(parameters), learning_rate_(learning_rate) {
  all_parameters_.add(parameters_, 0);
}

std::vector<Range> ShardedOptimizer::shares(std::size_t total, std::uint32_t index,
                                            const Keepers& keepers) {
  const auto count = static_cast<std::uint32_t>(keepers.size());
  std::vector<Range> ranges{part_of(total, index, count)};
  for (std::uint32_t member = 0; member < count; ++member) {
    if (keepers[member] == index) ranges.push_back(part_of(total, member, count));
  }
  return merged(std::move(ranges));
}

ShardedOptimizer::Held ShardedOptimizer::cut_range(const Copy& copy, const Range& range) const {
  Held held{range, Adam(range.size(), learning_rate_), copy.sums.moments, copy.sums.parameters};
  held.optimizer.set_state(copy.state.optimizer_steps, copy.state.mean, copy.state.square);
  return held;
}

ShardedOptimizer::Copy ShardedOptimizer::copy_range(const Range& range) const {
  Copy copy{.state = part(range), .sums = {}};
  copy.sums.parameters.add(copy.state.parameters, range.begin);
  copy.sums.moments.add_moments(copy.state.mean, copy.state.square, range.begin);
  return copy;
}

/// The running checksum follows, so that damage of the overwritten values is not forgotten.
void ShardedOptimizer::write_parameters(const Range& range, const Copy& copy) {
  const std::span<float> place = parameters_.subspan(range.begin, range.size());
  Checksum before;
  before.add(place, range.begin);
  std::copy(copy.state.parameters.begin(), copy.state.parameters.end(), place.begin());
  all_parameters_ -= before;
  all_parameters_ += copy.sums.parameters;
}

void ShardedOptimizer::restore_state(const TrainingState& whole) {
  ensure(whole.parameters.size() == parameters_.size(), "a state is that of this model");
  Copy copy{.state = whole, .sums = {}};
  copy.sums.parameters.add(whole.parameters, 0);
  copy.sums.moments.add_moments(whole.mean, whole.square, 0);
  std::copy(whole.parameters.begin(), whole.parameters.end(), parameters_.begin());
  all_parameters_ = copy.sums.parameters;
  fresh_ = false;
  before_.clear();
  held_.clear();
  held_.push_back(cut_range(copy, {0, parameters_.size()}));
  members_ = 0;
  is_gathered_ = true;
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

bool ShardedOptimizer::is_state_intact() const {
  Checksum parameters;
  parameters.add(parameters_, 0);
  if (parameters != all_parameters_) return false;
  for (const auto* parts : {&held_, &before_}) {
    for (const Held& held : *parts) {
      Checksum moments;
      moments.add_moments(held.optimizer.mean(), held.optimizer.square(), held.range.begin);
      if (moments != held.moments) return false;
    }
  }
  return true;
}

PartChecksums ShardedOptimizer::part_checksums() const {
  PartChecksums sums;
  if (is_gathered_) sums[0] = all_parameters_;
  for (std::uint32_t member = 0; member < members_; ++member) {
    const Range range = part_of(parameters_.size(), member, members_);
    Checksum sum;
    std::size_t covered = 0;
    for (const Held& held : held_) {
      if (held.range.begin < range.begin || held.range.end > range.end) continue;
      covered += held.range.size();
      sum += held.parameters;
      sum += held.moments;
    }
    if (covered == range.size()) sums[1 + member] = sum;
  }
  return sums;
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
  Holdings all(fabric.ranks());
  for (std::uint32_t step = 0; step < fabric.ranks(); ++step) {
    if (step > 0) {
      fabric.send_to(next_of(fabric), std::as_bytes(std::span(words)));
      fabric.receive_from(previous_of(fabric), std::as_writable_bytes(std::span(words)));
    }
    ensure(words[0] <= kMostRanges, "a rank says what it holds");
    std::vector<Range>& theirs = all[(fabric.rank() + fabric.ranks() - step) % fabric.ranks()];
    for (std::size_t i = 0; i < words[0]; ++i) {
      theirs.push_back({words[1 + 2 * i], words[2 + 2 * i]});
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

bool ShardedOptimizer::Piece::carries_moments_to(std::uint32_t rank) const {
  const auto ranks = static_cast<std::uint32_t>(takes_moments.size());
  for (; rank != source; rank = (rank + 1) % ranks) {
    if (takes_moments[rank]) return true;
  }
  return false;
}

void ShardedOptimizer::pass_piece(Fabric& fabric, const Piece& piece, const Copy& copy) {
  const std::uint32_t next = next_of(fabric);
  if (next == piece.source) return;
  fabric.send_to(next, encode_piece(copy.state, copy.sums, piece.carries_moments_to(next)));
}

ShardedOptimizer::Copy ShardedOptimizer::take_piece(Fabric& fabric, const Piece& piece) {
  Copy copy;
  copy.state = receive_piece(fabric, previous_of(fabric), piece.range,
                             piece.carries_moments_to(fabric.rank()), copy.sums);
  pass_piece(fabric, piece, copy);
  write_parameters(piece.range, copy);
  return copy;
}

void ShardedOptimizer::deal_state(Fabric& fabric, bool current, const Keepers& keepers) {
  ensure(keepers.size() == fabric.ranks(), "every member's part has a keeper");
  const std::vector<Range> own = current ? holdings() : std::vector<Range>();
  const std::vector<Range> wanted = shares(parameters_.size(), fabric.rank(), keepers);
  const std::vector<Piece> all = pieces(exchange_holdings(fabric, own), keepers);
  std::vector<std::optional<Copy>> copies(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool keeps = covers(wanted, all[i].range) && !all[i].takes_moments[fabric.rank()];
    if (keeps || all[i].source == fabric.rank()) copies[i] = copy_range(all[i].range);
  }
  std::vector<Held> before;
  if (!fresh_ && current) {
    for (const Range& range : own) before.push_back(cut_range(copy_range(range), range));
  }
  if (current && !is_state_intact()) throw StateDamaged();
  if (!current) forget_state();
  std::vector<Held> next;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Range& range = all[i].range;
    if (all[i].source == fabric.rank()) {
      pass_piece(fabric, all[i], *copies[i]);
    } else {
      Copy taken = take_piece(fabric, all[i]);
      if (!copies[i]) copies[i] = std::move(taken);
    }
    if (covers(wanted, range)) next.push_back(cut_range(*copies[i], range));
  }
  held_ = std::move(next);
  before_ = std::move(before);
  fresh_ = false;
  members_ = fabric.ranks();
  is_gathered_ = true;
}

/// The parameters of a rank that is behind are all overwritten.
void ShardedOptimizer::forget_state() {
  held_.clear();
  before_.clear();
  all_parameters_ = {};
  all_parameters_.add(parameters_, 0);
}

void ShardedOptimizer::update(std::span<const float> gradient, float scale, double rate_factor) {
  ensure(!held_.empty() || parameters_.empty(), "the state has been dealt");
  before_.clear();
  is_gathered_ = false;
  for (Held& part : held_) {
    StateChecksums sums{.parameters = all_parameters_, .moments = part.moments};
    part.parameters = part.optimizer.update(
        parameters_.subspan(part.range.begin, part.range.size()),
        gradient.subspan(part.range.begin, part.range.size()), scale, part.range.begin, sums,
        rate_factor);
    all_parameters_ = sums.parameters;
    part.moments = sums.moments;
  }
}

void ShardedOptimizer::gather_parameters(Fabric& fabric) {
  const auto range_of = [&](std::uint32_t rank) {
    return part_of(parameters_.size(), rank, fabric.ranks());
  };
  const Range own = range_of(fabric.rank());
  TrainingState copy;
  copy.parameters.assign(parameters_.begin() + std::ptrdiff_t(own.begin),
                         parameters_.begin() + std::ptrdiff_t(own.end));
  StateChecksums sums;
  sums.parameters.add(copy.parameters, own.begin);
  Checksum updated;
  for (const Held& held : held_) {
    if (own.begin <= held.range.begin && held.range.end <= own.end) updated += held.parameters;
  }
  if (sums.parameters != updated) throw StateDamaged();
  const std::vector<std::byte> message = encode_piece(copy, sums, false);
  for (std::uint32_t step = 1; step < fabric.ranks(); ++step) {
    fabric.send_to((fabric.rank() + step) % fabric.ranks(), message);
  }
  for (std::uint32_t rank = 0; rank < fabric.ranks(); ++rank) {
    if (rank == fabric.rank()) continue;
    Copy received;
    received.state = receive_piece(fabric, rank, range_of(rank), false, received.sums);
    write_parameters(range_of(rank), received);
  }
  is_gathered_ = true;
}

}  // namespace orrery::live
