#include "policies/run/worker.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/process.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/handover/fallback.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/client_policy.hpp"
#include "policies/run/futures.hpp"
#include "policies/run/outside_policies.hpp"
#include "policies/run/policy_failure.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/run_policies.hpp"
#include "policies/run/threaded_policy.hpp"
#include "policies/seam/byte_archive.hpp"
#include "policies/seam/drive.hpp"
#include "topologies/builder.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

using HostClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kProgressInterval{200};

/// Approver that asks the client of the run and the other operators of the run, if it has any.
class ClientApprover : public Approver {
 public:
  /// `waits`: request_approval() blocks until the answer, so that no policy time passes. `others`
  /// may be null.
  ClientApprover(bool waits, ClientInbox& inbox, OperatedRun* others)
      : waits_(waits), inbox_(inbox), others_(others) {}

  void request_approval(const Decision& decision, Nanos now) override {
    WorkerMessage message;
    ApprovalAsk& question = *message.mutable_approval();
    question.set_decision(decision.id);
    question.set_now(now);
    question.set_text(trace_line(decision));
    question.set_why(decision.why);
    encode(decision, *question.mutable_record());
    send_to_client(message);
    if (others_ != nullptr) others_->on_approval_request(decision);
    while (waits_ && !inbox_.has_verdict_on(decision.id)) inbox_.read_answer();
  }

  /// An answer that arrives here is that of a policy that was given up.
  std::vector<Verdict> verdicts() override {
    while (!waits_ && ClientInbox::has_message(0)) inbox_.read_answer();
    if (others_ == nullptr) return inbox_.drain_verdicts();
    for (Verdict& verdict : others_->verdicts()) inbox_.add_verdict(std::move(verdict));
    return inbox_.drain_verdicts();
  }

 private:
  const bool waits_;
  ClientInbox& inbox_;
  OperatedRun* const others_;
};

volatile std::sig_atomic_t halt_seen = 0;

/// Returns the kill switch: true if `file` exists or SIGUSR1 has arrived. A file that cannot be
/// examined counts as existing, because an operator must be able to stop a run despite a broken
/// file system.
std::function<bool()> kill_switch(const std::string& file) {
  return [file] {
    std::error_code unknown;
    return halt_seen != 0 || (!file.empty() && std::filesystem::status(file, unknown).type() !=
                                                   std::filesystem::file_type::not_found);
  };
}

HandOverRules rules_of(const RunRequest& request, Approver& approver,
                       std::function<bool()> stopped) {
  const HandOverOrder& order = request.hand_over();
  HandOverRules rules{.mode = hand_over_mode(request.mode()),
                      .per_hour = order.decisions_per_hour(),
                      .approver = &approver,
                      .stopped = std::move(stopped)};
  if (order.patience() > 0) rules.patience = order.patience();
  return rules;
}

/// Returns the request with the recorded failures as faults. Only the backend gets these faults:
/// logs and hashes use the scenario without them.
RunRequest with_recorded_failures(RunRequest request) {
  if (!request.scenario().has_failures()) return request;
  *request.mutable_scenario() = with_recorded_faults(request.scenario(), request.folder());
  return request;
}

/// Returns a sink that sends progress to the client at intervals, and drops progress while the
/// client does not read.
ProgressSink progress_sender() {
  return [last = HostClock::time_point{}](const Progress& progress) mutable {
    const auto now = HostClock::now();
    if (now - last < kProgressInterval) return;
    pollfd channel{kChildDescriptor, POLLOUT, 0};
    if (poll(&channel, 1, 0) != 1 || (channel.revents & POLLOUT) == 0) return;
    last = now;
    WorkerMessage message;
    *message.mutable_progress() = progress;
    send_to_client(message);
  };
}

LogHeader header_of(const std::string& mode, const RunRequest& request) {
  LogHeader header;
  header.set_version(version());
  header.set_mode(mode);
  header.set_seed(request.scenario().run().seed());
  *header.mutable_scenario() = request.scenario();
  header.set_policy_outside(request.policy_outside());
  header.set_fall_back(request.hand_over().fall_back());
  *header.mutable_outside_policies() = request.policy_outside_names();
  return header;
}

void fill_hand_over(const HandOver& handed_over, const FallbackPolicy& policy,
                    HandOverReport& report) {
  handed_over.fill(report);
  if (policy.failure().empty()) return;
  report.set_policy_failure(policy.failure());
  report.set_policy_failure_s(to_seconds(policy.failed_at()));
}

void check_futures(const RunRequest& request) {
  const FuturesOrder& order = request.futures();
  const bool forks = order.count() > 0 && !order.has_only_future();
  const bool asks = (request.policy_outside() && forks) ||
                    hand_over_mode(request.mode()) == HandOverMode::approve;
  if (asks || !request.timeline().empty()) {
    throw Error(ErrorKind::usage,
                asks ? "futures: expected decisions without approval, found mode approve; choose "
                       "--mode drive or shadow"
                     : "futures: expected no timeline, which can show only one run");
  }
  check_log_of_futures(request);
}

std::unique_ptr<PolicyStack> heirs_of(const FutureChoice& choice, Scenario scenario) {
  if (choice.policies().empty()) return nullptr;
  *scenario.mutable_policies() = choice.policies();
  return make_stack(scenario, SourceMap{});
}

/// Throws if the run cannot continue from the log. Faults, noise and policies may differ from those
/// of the log; the cluster, the layout and the batch may not. A key that the log's version did not
/// have counts as its default.
void check_past(const RunRequest& request, const LogHeader& header) {
  const auto differs = [](auto a, auto b) {
    fill_defaults(a);
    fill_defaults(b);
    return a.SerializeAsString() != b.SerializeAsString();
  };
  const Scenario& now = request.scenario();
  const Scenario& then = header.scenario();
  if (differs(now.cluster(), then.cluster()) || differs(now.job().layout(), then.job().layout()) ||
      now.job().global_batch() != then.job().global_batch()) {
    throw Error(ErrorKind::bad_input,
                "expected the cluster, job.layout and job.global_batch that the log was recorded "
                "with, found other values: the log contains the placement of the job");
  }
}

/// Returns true if the run continues with exactly the policies and parameters of the log.
bool same_policies(const RunRequest& request, const LogHeader& header) {
  if (request.policy_outside()) return !request.policy_outside_heirs();
  return !header.policy_outside() && have_same_policies(request.scenario(), header.scenario());
}

std::unique_ptr<Past> past_of(const RunRequest& request, const Cluster& cluster) {
  if (!request.has_from()) return nullptr;
  std::optional<Nanos> until;
  if (request.from().has_until()) until = request.from().until();
  auto past = std::make_unique<Past>(request.from().path(), until, cluster);
  check_past(request, past->header());
  const bool unknown = past->header().policy_outside() && !same_policies(request, past->header());
  if (!unknown) past->compare_decisions();
  return past;
}

/// Prepares the process of a future at the instant of the fork.
BranchingRun::Continuation prepare_future(const Future& future, const Scenario& scenario,
                                          Succession& policy, Recorder& recorder) {
  if (!future.is_unforked()) recorder.release_log();
  if (future.has_difference()) {
    std::vector<Decision> given;
    for (const DecisionRecord& record : future.choice->decisions()) {
      given.push_back(decode(record));
      if (record.expires() == 0) given.back().expires = kNever;
    }
    if (future.choice->outside()) {
      policy.replace_outside(std::move(given));
    } else {
      policy.replace_policies(heirs_of(*future.choice, scenario), std::move(given));
    }
  }
  return {.seed = future.seed(scenario.run().seed()), .ask = future.has_difference()};
}

/// Returns the functions that save and restore the state of a run's policies, authority and log.
SurvivableRun::Memory memory_of(RunPolicies& policies, HandOver& handed_over, Recorder& recorder) {
  return {.save = [&]() -> std::optional<std::string> {
            if (!policies.is_idle()) return std::nullopt;
            const std::optional<std::string> rules = handed_over.save();
            if (!rules) return std::nullopt;
            Archive state;
            policies.decider().save(state);
            std::string saved;
            ByteWriter write(saved);
            write(state);
            write(policies.fallback().failed_at());
            write(*rules);
            write(recorder.save());
            return saved;
          },
          .load =
              [&](const std::string& saved, const World& world) {
                ByteReader read(saved);
                Archive state;
                Nanos failed_at = 0;
                std::string rules, log;
                read(state);
                read(failed_at);
                read(rules);
                read(log);
                policies.load(state, failed_at, world);
                handed_over.load(rules);
                recorder.load(log);
              },
          .show_world = [&](const World& world) { policies.show_world(world); }};
}

void send_report(Report&& report) {
  WorkerMessage message;
  *message.mutable_report() = std::move(report);
  send_to_client(message);
}

Recorder::Options recorder_options(const RunRequest& request, SurvivableRun* run) {
  Recorder::Options options{.path = request.record()};
  if (run == nullptr) return options;
  options.without = [run](const std::string& why) { return run->can_continue_without_log(why); };
  options.open = [run](const std::string& path) { return run->log_file(open_log(path)); };
  return options;
}

/// Returns the interface of a run that can fork, continue from a log and end early. Throws
/// bad_input with the message `otherwise` if the run cannot.
BranchingRun& branching(const RunWorld& world, const char* otherwise) {
  if (world.branching == nullptr) throw Error(ErrorKind::bad_input, otherwise);
  return *world.branching;
}

/// Writes the parts of the report that do not come from the backend.
void fill_report(const std::string& mode, const RunRequest& request, const Recorder& recorder,
                 Report& report) {
  report.set_mode(mode);
  report.set_version(version());
  report.set_seed(request.scenario().run().seed());
  report.set_scenario(request.scenario().name());
  report.set_scenario_hash(scenario_hash(request.scenario()));
  report.set_events(recorder.events());
  if (recorder.notes() > 0) report.set_notes(recorder.notes());
  report.set_decision_log_sha256(recorder.log_sha256());
  report.set_decision_trace_sha256(recorder.trace_sha256());
}

/// Run of one request, assembled from its parts: the world, the policies, their authority, the
/// recorder. Call the methods in their order.
class WorkerRun {
 public:
  /// `mode`: as serve_run(). `forked`: this process shares its memory with other processes.
  WorkerRun(const std::string& mode, const RunRequest& request, const BackendMaker& make_backend,
            bool forked)
      : request_(request),
        cluster_(std::make_shared<const Cluster>(
            build_cluster(request.scenario().cluster(), SourceMap{}))),
        past_(past_of(request, *cluster_)),
        rng_(policy_rng(past_ ? past_->header().seed() : request.scenario().run().seed())),
        policies_(request, past_.get(), inbox_),
        world_(make_backend(with_recorded_failures(request), *cluster_, progress_sender())),
        approver_(request.hand_over().wait_for_verdicts(), inbox_, world_.operated),
        handed_over_(policies_.connect_world(request, world_, cluster_,
                                             kill_switch(request.hand_over().kill_switch())),
                     rules_of(request, approver_, [this] { return policies_.is_halted(); })),
        recorder_(handed_over_, policies_.decider(), header_of(mode, request),
                  recorder_options(request, world_.survivable)),
        forked_(forked) {}

  /// Gives the run access to the state of its policies, unless a part of the state is in another
  /// process (that of an external policy or of a question to an operator) or the run forks.
  void share_memory();
  /// Makes the run continue from the log of the request, if it names one. The policies of the run
  /// replace those of the log at its end, if they differ.
  void continue_past();
  /// Lets the run end at the instant that the request names.
  void plan_end();
  /// Lets the run fork into the futures of the request.
  void plan_futures();
  /// Runs until the end. Returns the metrics of the policies and of the world.
  Report drive_policies();
  /// Returns true if the process must exit without freeing its memory, which it shares.
  bool is_forked() const { return forked_; }
  /// Writes the parts of the report that do not come from the world.
  void complete(const std::string& mode, Report& report) const;

 private:
  const RunRequest& request_;
  const std::shared_ptr<const Cluster> cluster_;
  std::unique_ptr<Past> past_;
  Rng rng_;
  ClientInbox inbox_;
  RunPolicies policies_;
  RunWorld world_;
  ClientApprover approver_;
  HandOver handed_over_;
  Recorder recorder_;
  bool forked_;
  bool branched_ = false;
};

void WorkerRun::share_memory() {
  const bool asks = hand_over_mode(request_.mode()) == HandOverMode::approve;
  if (world_.survivable == nullptr || request_.policy_outside() || asks || request_.has_futures()) {
    return;
  }
  world_.survivable->remember_by(memory_of(policies_, handed_over_, recorder_));
}

void WorkerRun::continue_past() {
  if (!past_) return;
  const bool others = !same_policies(request_, past_->header());
  if (others && !request_.record().empty()) {
    throw Error(ErrorKind::usage,
                "a run that continues from a log with other policies than the log's cannot be "
                "recorded: a replay knows only one list of policies");
  }
  if (ClientPolicy* const client = policies_.client()) {
    past_->on_unknown_decision([client](const Decision& made) { client->announce_decision(made); });
  }
  branching(world_, "only a simulated scenario with a job can continue from a log")
      .continue_from(std::move(past_), [others, this] {
        Succession& policy = policies_.succession();
        if (others && request_.policy_outside()) {
          policy.replace_outside({});
        } else if (others) {
          policy.replace_policies(make_stack(request_.scenario(), SourceMap{}), {});
        }
        return others;
      });
}

void WorkerRun::plan_end() {
  if (request_.until() == 0) return;
  branching(world_, "only a simulated scenario with a job can end at an instant")
      .end_at(request_.until());
}

void WorkerRun::plan_futures() {
  if (!request_.has_futures()) return;
  check_futures(request_);
  branching(world_, "futures: expected a simulated scenario with a job")
      .branch_at(request_.futures().at(), [this] {
        branched_ = true;
        recorder_.flush();
        forked_ = !request_.futures().has_only_future();
        const Future future = forked_ ? begin_futures(request_.futures(), send_to_client)
                                      : only_future(request_.futures());
        return prepare_future(future, request_.scenario(), policies_.succession(), recorder_);
      });
}

Report WorkerRun::drive_policies() {
  Report report;
  Context context{rng_, {}};
  try {
    report.set_decisions(drive(policies_.decider(), recorder_, context));
    recorder_.finish_log();
  } catch (const FuturesEnded&) {
    recorder_.release_log();
    forked_ = false;
  }
  if (!request_.has_futures() || branched_) return report;
  world_.backend->fill(report);
  throw Error(ErrorKind::bad_input,
              fmt::format("the run is over after {} s: no futures begin at {} s",
                          report.elapsed_s(), to_seconds(request_.futures().at())));
}

void WorkerRun::complete(const std::string& mode, Report& report) const {
  fill_report(mode, request_, recorder_, report);
  world_.backend->fill(report);
  report.set_failure_events(count_failure_events(report));
  if (request_.has_hand_over() || !policies_.fallback().failure().empty()) {
    fill_hand_over(handed_over_, policies_.fallback(), *report.mutable_hand_over());
  }
  policies_.meter().fill(*report.mutable_host());
}

/// Runs a request. A forked process sends its report and exits here, because freeing its memory
/// would copy the pages that it shares with other processes.
Report run(const std::string& mode, const RunRequest& request, const BackendMaker& make_backend,
           bool forked) {
  const HostMeter meter;
  WorkerRun parts(mode, request, make_backend, forked);
  parts.share_memory();
  parts.continue_past();
  parts.plan_end();
  parts.plan_futures();
  Report report = parts.drive_policies();
  parts.complete(mode, report);
  meter.fill(*report.mutable_host());
  if (!parts.is_forked()) return report;
  send_report(std::move(report));
  _exit(0);
}

/// Returns the exit code; ends the process instead if a thread of it may not end.
int ended(int code) {
  if (ThreadedPolicy::has_abandoned_threads()) _exit(code);
  return code;
}

/// Sends the failure to the client, which may be gone, and returns the exit code.
int fail(const Error& error) {
  WorkerMessage message;
  *message.mutable_failure() = failure_record(error);
  write_message(kChildDescriptor, message.SerializeAsString());
  return ended(static_cast<int>(error.kind()));
}

}  // namespace

void HostMeter::fill(HostUse& host) const {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  host.set_wall_s(std::chrono::duration<double>(HostClock::now() - began_).count());
  host.set_cpu_s(seconds(use.ru_utime) + seconds(use.ru_stime));
  host.set_peak_rss_bytes(static_cast<double>(use.ru_maxrss) * 1024);
}

int serve_run(const std::string& mode, const BackendMaker& make_backend, bool forked) {
  std::signal(SIGUSR1, [](int) { halt_seen = 1; });
  try {
    const auto bytes = read_message(kChildDescriptor);
    if (!bytes) throw Error(ErrorKind::usage, "this program is started by orrery, not by hand");
    RunRequest request;
    ensure(request.ParseFromString(*bytes), "the request is a RunRequest");
    send_report(run(mode, request, make_backend, forked));
    return ended(0);
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail(Error(ErrorKind::environment, "out of memory"));
  } catch (const std::exception& error) {
    return fail(Error(ErrorKind::internal, error.what()));
  }
}

}  // namespace orrery
