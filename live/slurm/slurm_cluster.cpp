#include "live/slurm/slurm_cluster.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/part_changes.hpp"

namespace orrery::live {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Nanos kMinute = 60 * kNanosPerSecond;

Cluster cluster_of_nodes(const NodeMap& nodes) {
  JobReplay replay;
  replay.set_nodes(nodes.nodes());
  replay.set_gpus_per_node(nodes.gpus_per_node());
  return cluster_of(replay);
}

Nanos wall_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

SlurmCluster::SlurmCluster(SlurmCommands& commands, Options options)
    : commands_(commands),
      options_(std::move(options)),
      nodes_(parse_nodes(commands_.read_nodes()), options_.rules.partitions),
      cluster_(cluster_of_nodes(nodes_)),
      world_(cluster_),
      gate_(world_, {Kinds<Action>::of<Assign>(), {}}, *this),
      follower_(world_, nodes_, options_.rules, *this) {}

void SlurmCluster::begin(const Needs& needs) {
  if (needs.tick == 0) return;
  throw Error(ErrorKind::bad_input, "jobs of Slurm run under queue policies, which need no ticks");
}

// ---- decisions ------------------------------------------------------------------------------

std::string SlurmCluster::refusal(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return "a job of Slurm has nothing to set and nothing to save";
  if (!failure_.empty()) return "Slurm does not answer";
  const auto recent = std::count_if(acted_at_.begin(), acted_at_.end(),
                                    [this](Nanos at) { return at > now_ - kMinute; });
  if (options_.per_minute > 0 && recent >= options_.per_minute) {
    return fmt::format("the limit of {} actions a minute is reached", options_.per_minute);
  }
  return follower_.objection(*assign);
}

void SlurmCluster::emit_event(Event event) {
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

void SlurmCluster::apply(const DecisionList& decisions) {
  world_.begin_batch();
  gate_.accept_decisions(decisions, now_);
  if (options_.is_quiet) gate_.pop_due_wakes(now_);
  execute_lines();
}

void SlurmCluster::carry_out(const Decision& decision) {
  const auto& assign = std::get<Assign>(decision.what);
  ++(assign.is_release() ? counts_.stops : counts_.starts);
  std::erase_if(acted_at_, [this](Nanos at) { return at <= now_ - kMinute; });
  acted_at_.push_back(now_);
  follower_.order(assign, now_ / kNanosPerSecond);
}

// ---- readings -------------------------------------------------------------------------------

std::optional<Observation> SlurmCluster::next() {
  do {
    if (!wait_for_reading()) {
      is_over_ = true;
      return {};
    }
    if (!observe_slurm()) continue;
    if (gate_.pop_due_wakes(now_) || options_.has_ticks) emit_event(Tick{});
  } while (events_.empty());
  shown_ = std::exchange(events_, {});
  return Observation{.now = now_,
                     .sequence = calls_++,
                     .events = shown_,
                     .cluster = cluster_,
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = samples_};
}

/// Blocks until the next reading is due; returns false if the run ends before.
bool SlurmCluster::wait_for_reading() {
  constexpr std::chrono::milliseconds kSlice(50);
  if (!begun_) begun_ = next_reading_ = Clock::now();
  if (options_.at_reading) options_.at_reading();
  while (true) {
    const Clock::time_point now = Clock::now();
    if (options_.stopped && options_.stopped()) return false;
    if (now - *begun_ >= options_.until) return false;
    if (now >= *next_reading_) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(*next_reading_ - now, kSlice));
  }
  next_reading_ = Clock::now() + options_.every;
  return true;
}

/// Reads Slurm and shows the differences. Returns false, and changes nothing, if the reading fails.
bool SlurmCluster::observe_slurm() {
  ++counts_.readings;
  const Clock::time_point begin = Clock::now();
  std::vector<SlurmNode> nodes;
  std::vector<SlurmJob> jobs;
  std::int64_t boot_s = 0;
  try {
    boot_s = parse_boot_time(commands_.read_configuration());
    nodes = parse_nodes(commands_.read_nodes());
    jobs = parse_jobs(commands_.read_jobs());
  } catch (const Error& error) {
    report_failure(error.what());
    return false;
  }
  counts_.slowest = std::max<std::chrono::nanoseconds>(counts_.slowest, Clock::now() - begin);
  if (!failure_.empty()) report("Slurm answers again");
  failure_.clear();
  if (boot_s_ != 0 && boot_s != boot_s_) {
    report(fmt::format("slurmctld was restarted at {}: all orders are compared with its state",
                       boot_s));
  }
  boot_s_ = boot_s;
  now_ = std::max(now_ + 1, wall_clock());
  const auto reported = reported_parts(nodes_.lost_parts(nodes), {}, {});
  for (const PartChanged& change : part_changes(world_.state().parts, reported)) {
    emit_event(change);
  }
  follower_.follow_jobs(std::move(jobs), now_ / kNanosPerSecond);
  execute_lines();
  return true;
}

void SlurmCluster::report_failure(const std::string& why) {
  ++counts_.failed_readings;
  if (why != failure_) report(fmt::format("this reading changes nothing: {}", why));
  failure_ = why;
}

// ---- commands -------------------------------------------------------------------------------

void SlurmCluster::send_line(std::string line) {
  if (options_.rules.acts) lines_.push_back(std::move(line));
}

void SlurmCluster::report(std::string text) {
  if (options_.tell) options_.tell(text);
}

void SlurmCluster::execute_lines() {
  const std::vector<std::string> lines = std::exchange(lines_, {});
  if (lines.empty() || (options_.halted && options_.halted())) return;
  counts_.leases += static_cast<std::uint64_t>(std::count_if(
      lines.begin(), lines.end(),
      [](const std::string& line) { return line.find(" StartTime=now+") != std::string::npos; }));
  try {
    for (const std::string& complaint : commands_.execute_commands(lines)) {
      ++counts_.complaints;
      report("scontrol: " + complaint);
    }
  } catch (const Error& error) {
    report_failure(error.what());
  }
}

std::vector<SlurmEnd> SlurmCluster::find_ends(const std::vector<std::string>& ids) {
  try {
    return parse_ends(commands_.read_ends(ids));
  } catch (const Error&) {
    return {};  // Slurm keeps no accounts: the follower reports the job
  }
}

std::string SlurmCluster::find_owner(const std::string& id) {
  try {
    return parse_admin_comment(commands_.read_job(id));
  } catch (const Error&) {
    return {};  // the job is gone or Slurm does not answer: no order is touched
  }
}

}  // namespace orrery::live
