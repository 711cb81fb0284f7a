// Lost ranks: whatever is predicted to cost the fewest GPU-seconds until the job is as large and
// as far as it was. Each way is priced by what it takes (parameters), by what it throws away (the
// steps since the newest checkpoint) and by who works meanwhile: replacements with the state of a
// peer, a restart from the checkpoint, going on smaller until the hardware is back, or waiting for
// it. A job that has become smaller goes home as soon as all of that is well. Called by drive();
// one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

class CheapestGoodput : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

  /// What a way costs, GPU-seconds of the whole job; without a standing it is waited.
  struct Way {
    double cost = 0;
    std::string name;
    std::optional<Standing> where;
    StateFrom state = StateFrom::none;
  };
  /// The cheapest first. `step_s`: of the newest steps.
  static std::vector<Way> ways(const Observation& seen, const JobInfo& job, double step_s,
                               const CheapestGoodputParameters& parameters);

 private:
  struct Watched {
    double step_s = 0;
    bool waits = false;
    Standing home;  ///< where it stood first
  };
  void decide(const Observation& seen, const JobInfo& job, DecisionList& decisions);
  void go_home(const Observation& seen, DecisionList& decisions);

  CheapestGoodputParameters parameters_;
  std::map<JobId, Watched> jobs_;
};

}  // namespace orrery
