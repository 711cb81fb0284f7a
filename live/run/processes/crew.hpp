// The ranks of a run under the control core: carries statuses and directives between the agents'
// processes and the coordinator, notices who dies, starts replacements. The live backend asks it
// what has happened and tells it what to do next. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "live/run/files/journal.hpp"
#include "live/run/processes/agent_group.hpp"
#include "live/run/processes/briefing.hpp"
#include "live/run/processes/rank_control.hpp"
#include "live/run/processes/replacements.hpp"
#include "policies/membership/coordinator.hpp"

namespace orrery::live {

/// `was_member`: it took part in the epoch; else a replacement that never joined.
struct RankDied {
  RankDeath death;
  bool was_member = false;
};
/// Its processes die before they join, as often as they are started: nobody starts another one.
struct GivenUp {
  std::uint32_t rank = 0;
  std::string cause;
};
/// Ranks that were lost at once held some of the training state alone: nobody can go on with it.
struct StateGone {
  std::string what;
};
/// What the control core does, in the order of happening, among what the agents say.
using CrewEvent = std::variant<Incoming, RankDied, membership::Revoked, membership::Agreed,
                               membership::Formed, membership::Committed, membership::Decided,
                               membership::Aborted, membership::Stuck, GivenUp, StateGone>;

class Crew : public RankControl {
 public:
  /// Starts the agents and waits until they are linked up; those that die meanwhile are started
  /// again. Throws an environment Error if one of them cannot start. With the journal of a run
  /// whose policy clock runs already, goes on with whoever is there, and does not wait. `processes`
  /// and `journal` outlive this.
  Crew(AgentProcesses& processes, const ControllerStart& place, const Assignment& assignment,
       std::uint32_t ranks, Journal& journal);

  /// What has happened, at the latest at `deadline`, or as soon as there is anything. A rank that
  /// reports an error of its process or machine is ended; any other error that one reports is
  /// thrown, and an environment Error when the ranks cannot be linked up in many attempts.
  std::vector<CrewEvent> wait(Clock::time_point deadline);
  /// Tells the ranks what follows from that. Before, whatever must be remembered of it is written
  /// to the journal.
  void send_directives();

  /// What control core and membership are to be remembered by.
  void keep(JournalSnapshot& now) const;

  bool ready() const { return coordinator_.ready(); }
  bool running() const override { return coordinator_.running(); }
  bool settled() const { return coordinator_.settled(); }
  std::uint64_t epoch() const { return coordinator_.epoch(); }
  /// A plan's shares are in this order.
  std::vector<std::uint32_t> members() const override;
  /// Lets the members work on the next step; `plan` gives each rank its own. Only while ready().
  void work(const std::function<StepPlan(std::uint32_t rank)>& plan);
  /// What the rank's processes are told of their hardware with the next directives, and every later
  /// one of them.
  void set_hardware(std::uint32_t rank, const Hardware& hardware) {
    briefing_.set_hardware(rank, hardware);
  }
  /// See Coordinator.
  void propose(std::uint64_t number);

  /// Each member is to write its shard of that checkpoint, of the state as it stands. Only while
  /// settled(), and before the next step.
  void save(Step step, std::uint64_t attempt);

  void replace(std::uint32_t rank) override;
  void renew() override { coordinator_.renew(); }
  /// All connections are opened anew, with the certificates of now: between two steps that costs
  /// none. Only while ready().
  void open_anew();
  bool all_silent() const override { return coordinator_.all_silent(); }
  std::vector<std::uint32_t> peers() const override { return coordinator_.peers(); }
  void end(std::uint32_t rank, const std::string& cause) override;
  void signal(std::uint32_t rank, int number) override { agents_.signal(rank, number); }
  std::vector<std::uint32_t> silent(Nanos span) const override {
    return coordinator_.silent(span, now());
  }
  std::int64_t pid(std::uint32_t rank) const override { return agents_.pid(rank); }
  bool running(std::uint32_t rank) const override { return agents_.running(rank); }

  /// Ends the run after `steps` committed steps and collects the hash of the parameters of every
  /// rank that holds them, by rank; also who died meanwhile.
  struct Parting {
    std::map<std::uint32_t, std::string> hashes;
    std::vector<RankDeath> deaths;
  };
  Parting finish(Step steps);

 private:
  using Seat = membership::Seat;
  void form();
  void fail(const Seat& seat, const Failed& failed, std::vector<CrewEvent>& events);
  void take(const Incoming& incoming, std::vector<CrewEvent>& events);
  void note_happenings(std::vector<CrewEvent>& events);
  RankDied note_loss(const membership::Lost& lost);
  void hear(const Seat& from, const MemberStatus& status, std::vector<CrewEvent>& events);
  void note_end(const Seat& seat, std::vector<CrewEvent>& events);
  void remember();
  void start_replacements(std::vector<CrewEvent>& events);
  Nanos now() const { return since(born_); }

  const Clock::time_point born_ = Clock::now();
  const Nanos timeout_;
  Journal& journal_;
  membership::Journal remembered_;
  AgentGroup agents_;
  membership::Coordinator coordinator_;
  std::set<Seat> were_members_;            ///< of any epoch
  std::map<Seat, std::string> causes_;     ///< of processes that have ended
  std::map<Seat, std::string> sentences_;  ///< why we ended them
  Briefing briefing_;
  std::set<Seat> dead_;  ///< what else comes from them is too late
  Replacements replacements_;
  int futile_ = 0;              ///< epochs since the last commit or loss
  std::uint32_t failures_ = 0;  ///< errors of ranks since the last commit
  bool formed_ = false;         ///< all have been linked up once
};

}  // namespace orrery::live
