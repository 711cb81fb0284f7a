#include "policies/collectives/collective_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.hpp"
#include "policies/parameters.pb.h"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Names of the schema in the order of the enums CollectiveKind and CollectiveAlgorithm.
constexpr std::array<std::string_view, 5> kKinds{"all-reduce", "reduce-scatter", "all-gather",
                                                 "all-to-all", "broadcast"};
constexpr std::array<std::string_view, 7> kAlgorithms{
    "automatic", "ring", "tree", "hierarchical", "direct", "nvls", "halving-doubling"};

template <class Enum, std::size_t kCount>
Enum named(const std::array<std::string_view, kCount>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  ensure(found != names.end(), "a name that the schema lets through");
  return static_cast<Enum>(found - names.begin());
}

CollectiveTable table_of(const CollectiveTableParameters& parameters) {
  CollectiveTable table;
  for (const CollectiveTableParameters::Rule& line : parameters.rules()) {
    table.push_back({named<CollectiveKind>(kKinds, line.kind()), line.from_bytes(),
                     line.from_ranks(), named<CollectiveAlgorithm>(kAlgorithms, line.algorithm()),
                     line.from_nodes()});
  }
  if (!table.empty()) return table;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    table.push_back({.kind = static_cast<CollectiveKind>(kind)});
  }
  return table;
}

}  // namespace

Needs CollectiveTablePolicy::needs() const {
  return {.actions = Kinds<Action>::of<Configure>(),
          .settings = Kinds<Setting>::of<CollectiveTable>()};
}

void CollectiveTablePolicy::start(Context&, const Cluster&,
                                  const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const CollectiveTableParameters*>(parameters);
  ensure(given != nullptr, "the parameters are the policy's own");
  table_ = table_of(*given);
  told_.clear();
}

void CollectiveTablePolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  for (const JobInfo& job : seen.jobs) {
    const auto told = std::lower_bound(told_.begin(), told_.end(), job.spec.id);
    const bool known = told != told_.end() && *told == job.spec.id;
    if (job.phase != JobPhase::running) {
      if (known) told_.erase(told);
    } else if (!known) {
      told_.insert(told, job.spec.id);
      decisions.add(Configure{job.spec.id, table_}, "the scenario's table");
    }
  }
  decisions.rest();
}

void CollectiveTablePolicy::save(Archive& archive) const { ByteWriter{archive}(told_); }

void CollectiveTablePolicy::load(const Archive& archive) {
  ByteReader read(archive);
  read(told_);
  ensure(read.is_at_end(), "a saved policy state holds nothing else");
}

}  // namespace orrery
