#include "traces/chakra/trace_fold.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using Signature = std::vector<std::uint64_t>;

/// Communicating operations of a program in the order of their calls: collectives by node id,
/// messages in the order of the file.
struct Calls {
  std::vector<std::vector<std::uint32_t>> by_slot;  ///< collectives on each communicator
  std::vector<std::uint32_t> messages;              ///< sends and receives, as TraceRank::tags
};

Calls calls_of(const RankProgram& program) {
  Calls calls;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const TraceOp& op = program.ops[i];
    if (op.kind == TraceOpKind::send || op.kind == TraceOpKind::receive) {
      calls.messages.push_back(i);
    }
    if (op.kind != TraceOpKind::collective) continue;
    if (op.slot >= calls.by_slot.size()) calls.by_slot.resize(op.slot + 1);
    calls.by_slot[op.slot].push_back(i);
  }
  for (std::vector<std::uint32_t>& slot : calls.by_slot) {
    std::sort(slot.begin(), slot.end(), [&](std::uint32_t a, std::uint32_t b) {
      return program.ops[a].id < program.ops[b].id;
    });
  }
  return calls;
}

/// Send or receive of one rank, with both ranks, the tag and the node id.
struct End {
  std::uint32_t from = 0, to = 0;
  std::int64_t tag = 0;
  std::uint64_t id = 0;
  std::uint32_t op = 0;
  std::uint64_t bytes = 0;
  auto key() const { return std::tuple(from, to, tag); }
  friend bool operator<(const End& a, const End& b) {
    return std::tuple(a.key(), a.id) < std::tuple(b.key(), b.id);
  }
};

/// Builder of the classes of one trace. A colour is a class under refinement.
class Folder {
 public:
  Folder(const ChakraTrace& trace, const Cluster& cluster, bool apart)
      : trace_(trace), cluster_(cluster), apart_(apart) {}

  FoldedTrace fold() {
    for (const RankProgram& program : trace_.programs) calls_.push_back(calls_of(program));
    find_members();
    match_messages();
    refine();
    make_classes();
    make_collectives();
    make_sends();
    return std::move(folded_);
  }

 private:
  struct Member {
    std::uint32_t rank = 0, slot = 0;
  };
  /// Counterpart of a message: the rank, and the index among the rank's messages.
  struct Other {
    std::uint32_t rank = 0, op = 0;
  };

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::bad_input, trace_.name + ": " + message);
  }
  const RankProgram& program(std::uint32_t rank) const {
    return trace_.programs[trace_.ranks[rank].program];
  }
  const Calls& calls(std::uint32_t rank) const { return calls_[trace_.ranks[rank].program]; }
  std::uint64_t node(std::uint32_t rank, std::uint32_t op) const {
    return program(rank).ops[op].id + trace_.ranks[rank].first_id;
  }

  void find_members();
  void match_calls(std::uint32_t group);
  void match_messages();
  void match(const End& send, const End& receive);
  Signature shape(const std::vector<std::uint32_t>& ranks) const;
  std::uint64_t crossing(std::uint32_t from, std::uint32_t to) const;
  void refine();
  std::size_t refine_once();
  void make_classes();
  void make_collectives();
  void make_sends();

  const ChakraTrace& trace_;
  const Cluster& cluster_;
  const bool apart_;
  std::vector<Calls> calls_;                  ///< indexed by program
  std::vector<std::vector<Member>> members_;  ///< indexed by group
  std::vector<std::vector<Other>> others_;    ///< indexed by rank and message
  std::vector<std::uint32_t> color_;          ///< indexed by rank
  std::vector<std::uint32_t> kind_of_;  ///< indexed by group: equal shape and colours of members
  FoldedTrace folded_;
};

// ---- members and messages -----------------------------------------------------------------------

void Folder::find_members() {
  members_.resize(trace_.groups.size());
  for (std::uint32_t rank = 0; rank < trace_.ranks.size(); ++rank) {
    const std::vector<std::uint32_t>& groups = trace_.ranks[rank].groups;
    for (std::uint32_t slot = 0; slot < groups.size(); ++slot) {
      members_[groups[slot]].push_back({rank, slot});
    }
  }
  for (std::uint32_t group = 0; group < members_.size(); ++group) match_calls(group);
}

void Folder::match_calls(std::uint32_t group) {
  const std::vector<Member>& members = members_[group];
  if (members.size() < trace_.groups[group].size()) {
    std::set<std::uint32_t> missing(trace_.groups[group].begin(), trace_.groups[group].end());
    for (const Member& member : members) missing.erase(member.rank);
    fail(fmt::format("rank {} never takes part in a collective of a communicator that it is a "
                     "member of; rank {} waits for it there", *missing.begin(), members[0].rank));
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;  // (program, slot): compared once
  const auto& first = calls(members[0].rank).by_slot[members[0].slot];
  for (const Member& member : members) {
    if (!seen.emplace(trace_.ranks[member.rank].program, member.slot).second) continue;
    const auto& own = calls(member.rank).by_slot[member.slot];
    for (std::size_t i = 0; i < std::min(first.size(), own.size()); ++i) {
      const TraceOp& a = program(members[0].rank).ops[first[i]];
      const TraceOp& b = program(member.rank).ops[own[i]];
      if (a.collective != b.collective) {
        fail(fmt::format("node {} of rank {} is {}, but {} in node {} of rank {}, with which it "
                         "shares the communicator",
                         node(members[0].rank, first[i]), members[0].rank,
                         chakra_name(a.collective), chakra_name(b.collective),
                         node(member.rank, own[i]), member.rank));
      }
      if (a.bytes == b.bytes || !folded_.warnings.empty()) continue;
      folded_.warnings.push_back(fmt::format(
          "members give different sizes for the same collective, the largest counts: node {} of "
          "rank {} {} bytes, node {} of rank {} {} bytes", node(members[0].rank, first[i]),
          members[0].rank, a.bytes, node(member.rank, own[i]), member.rank, b.bytes));
    }
    if (first.size() == own.size()) continue;
    fail(fmt::format("rank {} calls {} collectives on a communicator on which rank {} calls {}",
                     members[0].rank, first.size(), member.rank, own.size()));
  }
}

void Folder::match_messages() {
  std::vector<End> sends, receives;
  others_.resize(trace_.ranks.size());
  for (std::uint32_t rank = 0; rank < trace_.ranks.size(); ++rank) {
    const std::vector<std::uint32_t>& messages = calls(rank).messages;
    others_[rank].resize(messages.size());
    for (std::uint32_t i = 0; i < messages.size(); ++i) {
      const TraceOp& op = program(rank).ops[messages[i]];
      const std::uint32_t peer = trace_.ranks[rank].peers[op.slot];
      const bool out = op.kind == TraceOpKind::send;
      (out ? sends : receives)
          .push_back({out ? rank : peer, out ? peer : rank, trace_.ranks[rank].tags[i], op.id, i,
                      op.bytes});
    }
  }
  std::sort(sends.begin(), sends.end());
  std::sort(receives.begin(), receives.end());
  for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    const bool lone_send = i >= receives.size() ||
                           (i < sends.size() && sends[i].key() < receives[i].key());
    const bool lone_receive =
        i >= sends.size() || (i < receives.size() && receives[i].key() < sends[i].key());
    if (lone_send || lone_receive) {
      const End& lone = lone_send ? sends[i] : receives[i];
      const std::uint32_t rank = lone_send ? lone.from : lone.to;
      fail(fmt::format("node {} of rank {} {} rank {} with tag {}, but that rank has no {} for it",
                       lone.id + trace_.ranks[rank].first_id, rank,
                       lone_send ? "sends to" : "receives from", lone_send ? lone.to : lone.from,
                       lone.tag, lone_send ? "receive" : "send"));
    }
    match(sends[i], receives[i]);
  }
}

void Folder::match(const End& send, const End& receive) {
  if (send.bytes != receive.bytes) {
    fail(fmt::format("node {} of rank {} sends {} bytes to node {} of rank {}, which receives {}",
                     send.id + trace_.ranks[send.from].first_id, send.from, send.bytes,
                     receive.id + trace_.ranks[send.to].first_id, send.to, receive.bytes));
  }
  others_[send.from][send.op] = {send.to, receive.op};
  others_[send.to][receive.op] = {send.from, send.op};
}

// ---- refinement ---------------------------------------------------------------------------------

/// Returns the spread of a communicator over the cluster: its numbers of scalable units and rails,
/// and its ranks on each node.
Signature Folder::shape(const std::vector<std::uint32_t>& ranks) const {
  std::map<std::uint32_t, std::uint64_t> on_node;
  std::set<std::uint32_t> units, rails;
  for (const std::uint32_t rank : ranks) {
    const NodeId at = cluster_.node_of({rank});
    ++on_node[at.value];
    units.insert(cluster_.unit_of(at));
    rails.insert(cluster_.rail_of({rank}));
  }
  Signature shape{units.size(), rails.size()};
  for (const auto& [at, count] : on_node) shape.push_back(count);
  std::sort(shape.begin() + 2, shape.end());
  return shape;
}

std::uint64_t Folder::crossing(std::uint32_t from, std::uint32_t to) const {
  const NodeId a = cluster_.node_of({from}), b = cluster_.node_of({to});
  if (a == b) return 0;
  const bool same_rail = cluster_.rail_of({from}) == cluster_.rail_of({to});
  const bool same_unit = cluster_.unit_of(a) == cluster_.unit_of(b);
  return 1 + (same_rail ? 0 : 1) + (same_unit ? 0 : 2);
}

void Folder::refine() {
  const auto count = static_cast<std::uint32_t>(trace_.ranks.size());
  kind_of_.assign(trace_.groups.size(), 0);
  std::map<Signature, std::uint32_t> shapes;
  for (std::uint32_t group = 0; group < members_.size(); ++group) {
    const auto next = static_cast<std::uint32_t>(shapes.size());
    kind_of_[group] = shapes.emplace(shape(trace_.groups[group]), next).first->second;
  }
  std::map<Signature, std::uint32_t> colors;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const TraceRank& own = trace_.ranks[rank];
    Signature signature{own.program, apart_ ? rank : 0};
    for (const Other& other : others_[rank]) signature.push_back(crossing(rank, other.rank));
    const auto next = static_cast<std::uint32_t>(colors.size());
    color_.push_back(colors.emplace(std::move(signature), next).first->second);
  }
  std::size_t before = colors.size();
  for (std::size_t now = refine_once(); now != before; now = refine_once()) before = now;
}

/// Splits colours by the colours with which their ranks communicate. Returns the new number of
/// colours.
std::size_t Folder::refine_once() {
  std::map<Signature, std::uint32_t> kinds;
  for (std::uint32_t group = 0; group < members_.size(); ++group) {
    Signature met;
    for (const Member& member : members_[group]) {
      met.push_back(std::uint64_t{color_[member.rank]} << 32 | member.slot);
    }
    std::sort(met.begin(), met.end());
    met.push_back(kind_of_[group]);
    const auto next = static_cast<std::uint32_t>(kinds.size());
    kind_of_[group] = kinds.emplace(std::move(met), next).first->second;
  }
  std::map<Signature, std::uint32_t> colors;
  std::vector<std::uint32_t> fresh;
  for (std::uint32_t rank = 0; rank < color_.size(); ++rank) {
    Signature signature{color_[rank]};
    for (const std::uint32_t group : trace_.ranks[rank].groups) {
      signature.push_back(kind_of_[group]);
    }
    for (const Other& other : others_[rank]) {
      signature.push_back(std::uint64_t{color_[other.rank]} << 32 | other.op);
    }
    const auto next = static_cast<std::uint32_t>(colors.size());
    fresh.push_back(colors.emplace(std::move(signature), next).first->second);
  }
  color_ = std::move(fresh);
  return colors.size();
}

// ---- the result ---------------------------------------------------------------------------------

void Folder::make_classes() {
  for (std::uint32_t rank = 0; rank < color_.size(); ++rank) {
    // Colours are numbered in the order of their first rank.
    if (color_[rank] == folded_.classes.size()) {
      folded_.classes.push_back({.program = trace_.ranks[rank].program, .members = {}});
    }
    folded_.classes[color_[rank]].members.push_back(rank);
  }
  folded_.class_of = color_;
}

void Folder::make_collectives() {
  std::map<std::uint32_t, std::uint32_t> team_of_kind;
  for (std::uint32_t group = 0; group < members_.size(); ++group) {
    const auto team = static_cast<std::uint32_t>(folded_.teams.size());
    const auto [entry, fresh] = team_of_kind.emplace(kind_of_[group], team);
    if (!fresh) {
      folded_.teams[entry->second].push_back(group);
      continue;
    }
    folded_.teams.push_back({group});
    const Member& first = members_[group].front();
    const std::size_t count = calls(first.rank).by_slot[first.slot].size();
    for (std::size_t i = 0; i < count; ++i) {
      FoldedCollective call{.team = team, .kind = {}, .bytes = 0, .ops = {}};
      std::set<ClassOp> ops;
      for (const Member& member : members_[group]) {
        const std::uint32_t op = calls(member.rank).by_slot[member.slot][i];
        if (!ops.insert({color_[member.rank], op}).second) continue;
        call.kind = program(member.rank).ops[op].collective;
        call.bytes = std::max(call.bytes, program(member.rank).ops[op].bytes);
      }
      call.ops.assign(ops.begin(), ops.end());
      folded_.collectives.push_back(std::move(call));
    }
  }
}

void Folder::make_sends() {
  for (std::uint32_t of_class = 0; of_class < folded_.classes.size(); ++of_class) {
    const std::vector<std::uint32_t>& members = folded_.classes[of_class].members;
    const std::vector<std::uint32_t>& messages = calls(members[0]).messages;
    for (std::uint32_t i = 0; i < messages.size(); ++i) {
      const TraceOp& op = program(members[0]).ops[messages[i]];
      if (op.kind != TraceOpKind::send) continue;
      const Other& other = others_[members[0]][i];
      FoldedSend send{.from = {of_class, messages[i]},
                      .to = {color_[other.rank], calls(other.rank).messages[other.op]},
                      .bytes = op.bytes,
                      .pairs = {}};
      for (const std::uint32_t rank : members) send.pairs.emplace_back(rank, others_[rank][i].rank);
      folded_.sends.push_back(std::move(send));
    }
  }
}

}  // namespace

FoldedTrace fold_trace(const ChakraTrace& trace, const Cluster& cluster, bool apart) {
  if (trace.ranks.size() > cluster.gpus()) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: the trace has {} ranks, the cluster {} GPUs",
                                                  trace.name, trace.ranks.size(), cluster.gpus()));
  }
  return Folder(trace, cluster, apart).fold();
}

}  // namespace orrery
