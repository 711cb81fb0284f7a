// What runs in a simulated world, as its backend sees it: a training job, the jobs of a recorded
// log, an execution trace. Models stand side by side on one calendar: the backend asks each for the
// next instant at which something happens there, lets time go on to the earliest, and passes every
// decision to the model whose job it is about. One thread. The policy clock is in nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "policies/record/past.hpp"
#include "policies/seam/policy.hpp"
#include "sim/world/milestones.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

class JobModel {
 public:
  /// What the policies said last, and who else could interrupt.
  struct Watch {
    bool resting = false;  ///< they would decide nothing
    bool reads = true;     ///< they look at telemetry, or want ticks
    bool alone = true;     ///< nothing happens but here, to the policies' wake-ups
    Nanos limit = kNever;  ///< steps are advanced at once up to then
  };
  /// Tells the backend what has happened.
  using Happen = std::function<void(Event)>;

  virtual ~JobModel() = default;
  /// Once, before anything else: what the policies decide and read.
  virtual void prepare(const Needs&) {}

  /// Asked before time passes in steps that are advanced at once; outlives this.
  virtual void heed(Milestones&) {}
  /// What is random from `from` on is drawn with another seed.
  virtual void reseed(Nanos, std::uint64_t) {}
  /// Goes on from where the world is and `past` ends, which has been told. Throws bad_input where
  /// it cannot.
  virtual void go_on(const Past&) {
    throw Error(ErrorKind::bad_input, "--from: only a training job goes on from a log");
  }

  /// At `now`: what could begin is told to whoever meets it. All are made ready before any begins.
  virtual void ready(Nanos) {}
  /// At `now`: what can begin begins.
  virtual void begin(Nanos now, const Watch& watch) = 0;
  /// The next instant at which something happens here; kNever: never.
  virtual Nanos next_stop() const = 0;
  /// What has gone on up to `now` <= next_stop(), because something happens elsewhere: from here on
  /// this may go another way.
  virtual void settle(Nanos) {}
  /// What happens at `now`, next_stop().
  virtual void pass(Nanos now, const Watch& watch) = 0;
  /// Steps that were not told yet, before anything else is.
  virtual void tell_steps() {}
  /// How far this has come: beyond the backend's clock where steps were advanced at once.
  virtual Nanos now() const { return 0; }
  /// Nothing will ever happen here again.
  virtual bool over() const = 0;

  virtual bool step_open(JobId) const { return false; }
  /// Something is under way that the policies may want to look at.
  virtual bool watched(const Watch&) const { return false; }
  /// Nothing has changed of which the policies have not seen a whole step.
  virtual bool as_it_was(const Watch&) const { return true; }
  /// What stands against a decision about a job of this model; empty: nothing.
  virtual std::string refusal(const Decision& decision) const = 0;
  virtual void carry_out(const Decision& decision, Nanos now) = 0;

  // Telemetry of a job of this model: none, unless it has some.
  virtual void ranks(Nanos, std::vector<RankSample>&) const {}
  virtual void devices(Nanos, std::vector<DeviceSample>&) const {}
  virtual void links(Nanos, std::vector<LinkSample>&) const {}
  virtual void collectives(std::vector<CollectiveSample>&) const {}

  /// What the report says of the run as a whole; only the first model of a world is asked.
  virtual void fill(Report& report, Nanos now) = 0;
  /// One entry a job.
  virtual void add_outcomes(Report& report) const = 0;
};

}  // namespace orrery::sim
