#include "policies/collectives/collective_table.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "policies/parameters.pb.h"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

CollectiveTable table_of(const CollectiveTableParameters& parameters) {
  CollectiveTable table;
  for (const CollectiveTableParameters::Rule& line : parameters.rules()) {
    table.push_back({named<CollectiveKind>(line.kind()), line.from_bytes(), line.from_ranks(),
                     named<CollectiveAlgorithm>(line.algorithm()), line.from_nodes()});
  }
  if (!table.empty()) return table;
  using enum CollectiveKind;
  for (const CollectiveKind kind :
       {all_reduce, reduce_scatter, all_gather, all_to_all, broadcast}) {
    table.push_back({.kind = kind});
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
