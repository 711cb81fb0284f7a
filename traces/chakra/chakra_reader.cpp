#include "traces/chakra/chakra_reader.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/chakra/chakra_files.hpp"
#include "traces/chakra/chakra_wire.hpp"

namespace orrery {
namespace {

using Members = std::vector<std::uint32_t>;

[[noreturn]] void fail(const std::string& file, const std::string& message) {
  throw Error(SourcePlace{.file = file, .line_text = ""}, message);
}

/// Part of a rank outside its program.
struct OwnPart {
  std::string file;
  std::uint32_t program = 0;
  std::uint64_t first_id = 0;
  std::vector<std::string> group_names;
  std::vector<std::uint64_t> peers;
  std::vector<std::int64_t> tags;
  std::vector<NamedGroup> groups;
};

/// Program whose dependencies are node ids, so that the programs of later ranks can be compared.
struct RawProgram {
  std::vector<TraceOp> ops;
  std::vector<std::uint64_t> after_ids;
  std::string file;           ///< file of the first rank with this program
  std::uint64_t first_id = 0;  ///< smallest node id in this file
};

std::uint64_t digest(const ParsedRank& rank) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (const TraceOp& op : rank.ops) {
    mix(op.id);
    mix(op.flop);
    mix(op.bytes);
    mix(op.duration_ns);
    mix(std::uint64_t{op.slot} << 32 | op.after_end);
  }
  for (const std::uint64_t id : rank.after_ids) mix(id);
  return hash;
}

// ---- dependencies of one program ----------------------------------------------------------------

/// Count of dropped dependencies for a warning, with the first as an example.
struct Dropped {
  std::uint64_t count = 0;
  std::string first;

  void add(std::uint64_t more, const std::string& example) {
    if (count == 0) first = example;
    count += more;
  }
};

/// Resolver of the dependencies of one program, from node ids to indices of operations.
class Linker {
 public:
  explicit Linker(const RawProgram& raw) : raw_(raw) {}

  RankProgram link() {
    index_ids();
    RankProgram program{.ops = raw_.ops, .after = {}};
    program.after.reserve(raw_.after_ids.size());
    std::uint32_t begin = 0;
    for (TraceOp& op : program.ops) {
      const std::uint32_t end = op.after_end, controls = end - op.controls;
      op.controls = 0;
      for (std::uint32_t i = begin; i < end; ++i) {
        const bool found = resolve(op, raw_.after_ids[i], program.after);
        if (found && i >= controls) ++op.controls;
      }
      op.after_end = static_cast<std::uint32_t>(program.after.size());
      begin = end;
    }
    if (order(program, true).size() < program.ops.size()) break_cycles(program);
    return program;
  }
  const Dropped& dangling() const { return dangling_; }
  const Dropped& cyclic() const { return cyclic_; }

 private:
  std::uint64_t id(const TraceOp& op) const { return op.id + raw_.first_id; }
  void index_ids();
  bool resolve(const TraceOp& op, std::uint64_t id, std::vector<std::uint32_t>& after);
  std::vector<std::uint32_t> order(const RankProgram& program, bool controls) const;
  void break_cycles(RankProgram& program);
  [[noreturn]] void fail_cycle(const RankProgram& program,
                               const std::vector<std::uint32_t>& ordered) const;

  const RawProgram& raw_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_id_;
  Dropped dangling_, cyclic_;
};

void Linker::index_ids() {
  by_id_.reserve(raw_.ops.size());
  for (std::uint32_t i = 0; i < raw_.ops.size(); ++i) by_id_.emplace_back(raw_.ops[i].id, i);
  std::sort(by_id_.begin(), by_id_.end());
  const auto twice = std::adjacent_find(by_id_.begin(), by_id_.end(),
                                        [](auto& a, auto& b) { return a.first == b.first; });
  if (twice == by_id_.end()) return;
  fail(raw_.file, fmt::format("node {} is in the file twice", twice->first + raw_.first_id));
}

bool Linker::resolve(const TraceOp& op, std::uint64_t on, std::vector<std::uint32_t>& after) {
  const auto found =
      std::lower_bound(by_id_.begin(), by_id_.end(), std::pair(on, std::uint32_t{0}));
  if (found != by_id_.end() && found->first == on) {
    after.push_back(found->second);
    return true;
  }
  dangling_.add(1, dangling_.count > 0
                       ? ""
                       : fmt::format("node {} of {} waits for node {}", id(op), raw_.file,
                                     on + raw_.first_id));
  return false;
}

/// Returns the operations in an order in which each comes after its dependencies; of several
/// possible operations the smallest id is first. Operations on a cycle, or after a cycle, are
/// missing. `controls`: control dependencies count too.
std::vector<std::uint32_t> Linker::order(const RankProgram& program, bool controls) const {
  const auto count = static_cast<std::uint32_t>(program.ops.size());
  const auto each = [&](const auto& visit) {
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const TraceOp& op = program.ops[i];
      const std::uint32_t end = op.after_end - (controls ? 0 : op.controls);
      for (; at < end; ++at) visit(i, program.after[at]);
      at = op.after_end;
    }
  };
  // Lists the operations that wait for each operation, in one array: first counted, then filled.
  std::vector<std::uint32_t> begin(count + 1, 0), waiters(program.after.size()), left(count, 0);
  each([&](std::uint32_t op, std::uint32_t before) { ++begin[before + 1], ++left[op]; });
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::uint32_t> fill(begin.begin(), begin.end() - 1), ordered;
  each([&](std::uint32_t op, std::uint32_t before) { waiters[fill[before]++] = op; });
  const auto later = [&](std::uint32_t a, std::uint32_t b) {
    return program.ops[a].id > program.ops[b].id;
  };
  std::vector<std::uint32_t> ready;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (left[i] == 0) ready.push_back(i);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const std::uint32_t op = ready.back();
    ready.pop_back();
    ordered.push_back(op);
    for (std::uint32_t i = begin[op]; i < begin[op + 1]; ++i) {
      if (--left[waiters[i]] > 0) continue;
      ready.push_back(waiters[i]);
      std::push_heap(ready.begin(), ready.end(), later);
    }
  }
  return ordered;
}

/// Drops control dependencies that contradict the order of the data. In traces of PyTorch, control
/// dependencies say which call encloses which call, and may form cycles.
void Linker::break_cycles(RankProgram& program) {
  const std::vector<std::uint32_t> ordered = order(program, false);
  if (ordered.size() < program.ops.size()) fail_cycle(program, ordered);
  std::vector<std::uint32_t> position(ordered.size());
  for (std::uint32_t i = 0; i < ordered.size(); ++i) position[ordered[i]] = i;
  std::vector<std::uint32_t> kept;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    TraceOp& op = program.ops[i];
    const std::uint32_t end = op.after_end, controls = end - op.controls;
    op.controls = 0;
    for (; at < end; ++at) {
      const std::uint32_t before = program.after[at];
      if (at < controls || position[before] < position[i]) {
        kept.push_back(before);
        if (at >= controls) ++op.controls;
        continue;
      }
      cyclic_.add(1, cyclic_.count > 0 ? ""
                                       : fmt::format("node {} of {} on node {}", id(op), raw_.file,
                                                     id(program.ops[before])));
    }
    op.after_end = static_cast<std::uint32_t>(kept.size());
  }
  program.after = std::move(kept);
}

void Linker::fail_cycle(const RankProgram& program,
                        const std::vector<std::uint32_t>& ordered) const {
  std::vector<bool> free(program.ops.size(), false);
  for (const std::uint32_t op : ordered) free[op] = true;
  // Each operation without a place in the order waits for another such operation. As many steps
  // back as the program has operations therefore end on a cycle.
  auto op = static_cast<std::uint32_t>(std::find(free.begin(), free.end(), false) - free.begin());
  for (std::size_t step = 0; step < program.ops.size(); ++step) {
    std::uint32_t i = op == 0 ? 0 : program.ops[op - 1].after_end;
    while (free[program.after[i]]) ++i;
    op = program.after[i];
  }
  fail(raw_.file, fmt::format("node {} waits for itself: its data dependencies form a cycle",
                              id(program.ops[op])));
}

}  // namespace

// ---- folding ----------------------------------------------------------------------------------

struct ChakraFolder::State {
  std::string name;
  ParsedRank parsed;  ///< scratch
  std::vector<RawProgram> programs;
  std::map<std::uint64_t, std::vector<std::uint32_t>> by_digest;
  std::map<std::uint32_t, OwnPart> ranks;
  std::map<std::string, Members> groups;  ///< groups of the JSON file
  bool has_groups = false;
  std::uint64_t nodes = 0;

  ChakraTrace trace;
  std::map<std::pair<std::string, Members>, std::uint32_t> known_groups;
  std::map<std::string, std::uint32_t> shared_groups;  ///< groups that ranks do not define
  std::vector<Members> sorted_groups;  ///< groups in the order of ChakraTrace::groups

  std::uint32_t program_of(const std::string& file);
  void link_programs();
  void replicate(std::uint32_t count);
  void resolve_rank(std::uint32_t rank, const OwnPart& own);
  std::uint32_t add_group(const std::string& file, const std::string& group_name, Members given);
  std::uint32_t group_of(const OwnPart& own, const std::string& group_name);
};

std::uint32_t ChakraFolder::State::program_of(const std::string& file) {
  std::vector<std::uint32_t>& same_digest = by_digest[digest(parsed)];
  for (const std::uint32_t candidate : same_digest) {
    if (programs[candidate].ops == parsed.ops &&
        programs[candidate].after_ids == parsed.after_ids) {
      return candidate;
    }
  }
  const auto fresh = static_cast<std::uint32_t>(programs.size());
  programs.push_back({parsed.ops, parsed.after_ids, file, parsed.first_id});
  same_digest.push_back(fresh);
  return fresh;
}

void ChakraFolder::State::link_programs() {
  std::vector<std::uint64_t> users(programs.size(), 0);
  for (const auto& [rank, own] : ranks) ++users[own.program];
  Dropped dangling, cyclic;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Linker linker(programs[i]);
    trace.programs.push_back(linker.link());
    dangling.add(linker.dangling().count * users[i], linker.dangling().first);
    cyclic.add(linker.cyclic().count * users[i], linker.cyclic().first);
    programs[i] = {};
  }
  if (dangling.count > 0) {
    trace.warnings.push_back(fmt::format(
        "{} dependencies on nodes that are not in the trace are ignored; the first: {}",
        dangling.count, dangling.first));
  }
  if (cyclic.count > 0) {
    trace.warnings.push_back(fmt::format(
        "{} control dependencies against the order of the data are ignored; the first: {}",
        cyclic.count, cyclic.first));
  }
}

/// Lets a single recorded rank serve all `count` ranks, if it names no peers.
void ChakraFolder::State::replicate(std::uint32_t count) {
  if (count == 0 || count == ranks.size()) return;
  const OwnPart first = ranks.begin()->second;
  if (ranks.size() != 1) {
    fail(first.file, fmt::format("the trace has files for {} ranks, not {}", ranks.size(), count));
  }
  if (!first.peers.empty()) {
    fail(first.file, fmt::format("one file cannot serve {} ranks: it sends to or receives from a "
                                 "rank by number", count));
  }
  for (std::uint32_t rank = 1; rank < count; ++rank) ranks.emplace(rank, first);
  nodes *= count;
}

/// Returns the index of a group with these members, which are checked; no members mean all ranks.
std::uint32_t ChakraFolder::State::add_group(const std::string& file, const std::string& group_name,
                                             Members given) {
  const auto count = static_cast<std::uint32_t>(ranks.size());
  if (given.empty()) {
    given.resize(count);
    std::iota(given.begin(), given.end(), 0u);
  }
  const auto next = static_cast<std::uint32_t>(trace.groups.size());
  const auto [entry, fresh] = known_groups.emplace(std::pair(group_name, std::move(given)), next);
  if (!fresh) return entry->second;
  Members sorted = entry->first.second;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.back() >= count) {
    fail(file, fmt::format("communicator '{}' has rank {}, the trace has ranks 0 to {}",
                           group_name, sorted.back(), count - 1));
  }
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    fail(file, fmt::format("communicator '{}' has a rank twice", group_name));
  }
  trace.groups.push_back(entry->first.second);
  sorted_groups.push_back(std::move(sorted));
  return next;
}

std::uint32_t ChakraFolder::State::group_of(const OwnPart& own, const std::string& group_name) {
  const auto named = std::find_if(own.groups.begin(), own.groups.end(),
                                  [&](const NamedGroup& g) { return g.name == group_name; });
  if (named != own.groups.end()) return add_group(own.file, group_name, named->ranks);
  const auto known = shared_groups.find(group_name);
  if (known != shared_groups.end()) return known->second;
  const auto beside = groups.find(group_name);
  if (beside == groups.end() && !group_name.empty() && group_name != "0") {
    fail(own.file,
         fmt::format("communicator '{}' is used but defined nowhere: neither in {} nor in METADATA "
                     "nodes", group_name,
                     has_groups ? "the groups file" : "a groups file (there is none)"));
  }
  const std::uint32_t index =
      add_group(own.file, group_name, beside == groups.end() ? Members{} : beside->second);
  shared_groups.emplace(group_name, index);
  return index;
}

void ChakraFolder::State::resolve_rank(std::uint32_t rank, const OwnPart& own) {
  TraceRank& out = trace.ranks.emplace_back();
  out.program = own.program;
  out.first_id = own.first_id;
  out.tags = own.tags;
  for (const std::string& each : own.group_names) {
    const std::uint32_t group = group_of(own, each);
    const Members& sorted = sorted_groups[group];
    if (!std::binary_search(sorted.begin(), sorted.end(), rank)) {
      fail(own.file, fmt::format("rank {} uses communicator '{}' without being a member of it",
                                 rank, each));
    }
    out.groups.push_back(group);
  }
  for (const std::uint64_t peer : own.peers) {
    if (peer == rank) fail(own.file, fmt::format("rank {} sends to itself", rank));
    if (peer >= ranks.size()) {
      fail(own.file, fmt::format("there is no rank {} to send to or receive from: the trace has "
                                 "ranks 0 to {}",
                                 peer, ranks.size() - 1));
    }
    out.peers.push_back(static_cast<std::uint32_t>(peer));
  }
}

ChakraFolder::ChakraFolder(std::string name) : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
}
ChakraFolder::~ChakraFolder() = default;

void ChakraFolder::add_rank(std::uint32_t rank, const std::string& file, std::string_view bytes) {
  State& state = *state_;
  parse_chakra_rank(file, bytes, state.parsed);
  state.nodes += state.parsed.ops.size();
  OwnPart own{file,
              state.program_of(file),
              state.parsed.first_id,
              state.parsed.group_names,
              state.parsed.peers,
              state.parsed.tags,
              std::move(state.parsed.groups)};
  if (!state.ranks.emplace(rank, std::move(own)).second) {
    fail(file, fmt::format("rank {} has two files", rank));
  }
}

void ChakraFolder::set_groups(const std::string& file, std::string_view json) {
  state_->has_groups = true;
  for (NamedGroup& group : groups_in_json(file, json)) {
    if (!state_->groups.emplace(group.name, std::move(group.ranks)).second) {
      fail(file, fmt::format("communicator '{}' is defined twice", group.name));
    }
  }
}

ChakraTrace ChakraFolder::finish_trace(std::uint32_t ranks) {
  State& state = *state_;
  if (state.ranks.empty()) fail(state.name, "the trace has no ranks");
  state.replicate(ranks);
  state.trace.name = state.name;
  state.link_programs();
  for (const auto& [rank, own] : state.ranks) {
    if (rank != state.trace.ranks.size()) {
      fail(state.name, fmt::format("there is no file for rank {}", state.trace.ranks.size()));
    }
    state.resolve_rank(rank, own);
  }
  state.trace.nodes = state.nodes;
  return std::move(state.trace);
}

ChakraTrace read_chakra(const ChakraInput& input) {
  ChakraFolder folder(input.path);
  read_chakra_files(
      input.path, input.groups,
      {.rank = [&](std::uint32_t rank, const std::string& file,
                   std::string_view bytes) { folder.add_rank(rank, file, bytes); },
       .groups = [&](const std::string& file,
                     std::string_view json) { folder.set_groups(file, json); }});
  return folder.finish_trace(input.ranks);
}

}  // namespace orrery
