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
#include <fmt/ranges.h>

#include "core/process.hpp"
#include "policies/handover/fallback.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/client_policy.hpp"
#include "policies/run/detached_backend.hpp"
#include "policies/run/futures.hpp"
#include "policies/run/outside_policies.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/remote_policy.hpp"
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

/// Approver that asks the client of the run and the operators that the backend knows.
class ClientApprover : public Approver {
 public:
  /// `waits`: request_approval() blocks until the answer, so that no policy time passes.
  ClientApprover(bool waits, ClientInbox& inbox, RunBackend& backend)
      : waits_(waits), inbox_(inbox), backend_(backend) {}

  void request_approval(const Decision& decision, Nanos now) override {
    WorkerMessage message;
    ApprovalAsk& question = *message.mutable_approval();
    question.set_decision(decision.id);
    question.set_now(now);
    question.set_text(trace_line(decision));
    question.set_why(decision.why);
    encode(decision, *question.mutable_record());
    send_to_client(message);
    backend_.on_approval_request(decision);
    while (waits_ && !inbox_.has_verdict_on(decision.id)) inbox_.read_answer();
  }

  /// An answer that arrives here is that of a policy that was given up.
  std::vector<Verdict> verdicts() override {
    while (!waits_ && ClientInbox::has_message(0)) inbox_.read_answer();
    for (Verdict& verdict : backend_.verdicts()) inbox_.add_verdict(std::move(verdict));
    return inbox_.drain_verdicts();
  }

 private:
  const bool waits_;
  ClientInbox& inbox_;
  RunBackend& backend_;
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

std::unique_ptr<PolicyStack> remote_stack(std::unique_ptr<ClientPolicy> policy) {
  std::vector<PolicyStack::Member> members;
  members.push_back({.name = "outside", .policy = std::move(policy), .parameters = nullptr});
  return std::make_unique<PolicyStack>(std::move(members));
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
  const bool asks = (request.policy_outside() && forks) || request.mode() == "approve";
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
/// of the log; the cluster, the layout and the batch may not.
void check_past(const RunRequest& request, const LogHeader& header) {
  const auto differs = [](const google::protobuf::Message& a, const google::protobuf::Message& b) {
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

/// Returns the policies of the first call: those of the log if the run continues from a log, but
/// `static` if the log's policies decided in another process.
std::unique_ptr<PolicyStack> first_stack(const RunRequest& request, const Past* past) {
  if (past == nullptr) return make_stack(request.scenario(), SourceMap{});
  Scenario then = past->header().scenario();
  if (past->header().policy_outside()) then.clear_policies();
  return make_stack(then, SourceMap{});
}

/// Prepares the process of a future at the instant of the fork.
RunBackend::Continuation go_on(const Future& future, const Scenario& scenario, Succession& policy,
                               Recorder& recorder) {
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

/// Policies of a run, from the inside out: the stack, its thread if the run has its own pace, the
/// decorator that replaces policies that fail, the decorator of futures, the meter.
class RunPolicies {
 public:
  /// `inbox` must outlive this object.
  RunPolicies(const RunRequest& request, const Past* past, ClientInbox& inbox) {
    if (request.policy_outside()) {
      auto client = std::make_unique<ClientPolicy>(request.policy_outside_needs(), inbox, meter_);
      client_ = client.get();
      stack_ = remote_stack(std::move(client));
    } else {
      stack_ = first_stack(request, past);
    }
  }

  /// Connects the policies with the backend of their run; call once.
  void connect(const RunRequest& request, RunBackend& backend,
               const std::shared_ptr<const Cluster>& cluster) {
    if (backend.has_own_pace() && !request.policy_outside()) {
      threaded_.emplace(stack_, cluster, meter_);
    }
    guarded_.emplace(threaded_ ? static_cast<Policy&>(*threaded_) : *stack_,
                     request.hand_over().fall_back());
    succession_.emplace(*guarded_, *stack_);
    succession_->on_needs([&backend](const Needs& needs) { backend.begin(needs); });
    if (client_ != nullptr) succession_->set_outside(*client_);
    metered_.emplace(*succession_, meter_);
    const bool shadow = hand_over_mode(request.mode()) == HandOverMode::shadow;
    if (backend.has_own_pace() && shadow) {
      detached_.emplace(backend, kill_switch_of(request, backend));
    } else {
      guarded_->on_replay([&backend] { return backend.given_up(); });
    }
    meter_.set_rules(meter_rules(request, backend));
    backend.watch_policies(meter_);
  }

  /// Returns the backend that the policies see, beside their authority.
  Backend& world(RunBackend& backend) {
    return detached_ ? static_cast<Backend&>(*detached_) : backend;
  }
  /// Returns the kill switch for the decisions.
  std::function<bool()> kill_switch_of(const RunRequest& request, RunBackend& backend) {
    if (detached_) return [this] { return detached_->is_halted(); };
    return [&backend, on = kill_switch(request.hand_over().kill_switch())] {
      return backend.is_halted(on());
    };
  }
  /// Returns true if no policy decides and no policy owes an answer.
  bool is_idle() const { return !detached_ || detached_->is_idle(); }
  /// Restores the saved state of the policies.
  void load(const Archive& state, Nanos failed_at, const World& world) {
    succession_->load(state);
    guarded_->set_failed_at(failed_at);
    if (threaded_) threaded_->set_world(world);
    if (detached_) detached_->set_world(world);
  }

  /// Returns the policy in the client's process; null if the policies are in this process.
  ClientPolicy* client() { return client_; }
  MeteredPolicy& decider() { return *metered_; }
  Succession& succession() { return *succession_; }
  const FallbackPolicy& guarded() const { return *guarded_; }
  const PolicyMeter& meter() const { return meter_; }

 private:
  PolicyMeter::Rules meter_rules(const RunRequest& request, RunBackend& backend) {
    PolicyMeter::Rules rules{.timeout = request.policy_timeout(), .name = name_of(request)};
    if (detached_) {
      rules.attend = [this] { return detached_->advance_run(); };
      rules.pause_ms = 1;
    } else if (backend.has_own_pace()) {
      rules.attend = [&backend] { return backend.attend_operator(); };
    }
    return rules;
  }
  /// Returns a function that names the policy that was called last.
  std::function<std::string()> name_of(const RunRequest& request) const {
    if (!request.policy_outside()) {
      return [stack = stack_] { return "the policy '" + stack->last_called() + "'"; };
    }
    std::vector<std::string> names(request.policy_outside_names().begin(),
                                   request.policy_outside_names().end());
    const std::string one = names.size() == 1 ? "the policy" : "the policies";
    if (names.empty()) return [] { return std::string("the policy outside the run"); };
    return [text = fmt::format("{} '{}'", one, fmt::join(names, "', '"))] { return text; };
  }

  PolicyMeter meter_;
  ClientPolicy* client_ = nullptr;  ///< member of `stack_`
  std::shared_ptr<PolicyStack> stack_;
  std::optional<ThreadedPolicy> threaded_;
  std::optional<FallbackPolicy> guarded_;
  std::optional<Succession> succession_;
  std::optional<MeteredPolicy> metered_;
  std::optional<DetachedBackend> detached_;
};

/// Makes the run continue from the log. The policies of the run replace those of the log at its
/// end, if they differ.
void go_on_from(const RunRequest& request, std::unique_ptr<Past> past, RunPolicies& policies,
                RunBackend& backend) {
  const bool others = !same_policies(request, past->header());
  if (others && !request.record().empty()) {
    throw Error(ErrorKind::usage,
                "a run that continues from a log with other policies than the log's cannot be "
                "recorded: a replay knows only one list of policies");
  }
  if (ClientPolicy* const client = policies.client()) {
    past->on_unknown_decision([client](const Decision& made) { client->announce_decision(made); });
  }
  Succession& policy = policies.succession();
  backend.continue_from(std::move(past), [others, &request, &policy] {
    if (others && request.policy_outside()) {
      policy.replace_outside({});
    } else if (others) {
      policy.replace_policies(make_stack(request.scenario(), SourceMap{}), {});
    }
    return others;
  });
}

/// Gives the backend access to the state, unless a part of the state is in another process (that of
/// an external policy or of a question to an operator) or the run forks.
void remember(const RunRequest& request, RunPolicies& policies, HandOver& handed_over,
              Recorder& recorder, RunBackend& backend) {
  if (request.policy_outside() || request.mode() == "approve" || request.has_futures()) return;
  backend.remember_by({.save = [&]() -> std::optional<std::string> {
                         if (!policies.is_idle()) return std::nullopt;
                         const std::optional<std::string> rules = handed_over.save();
                         if (!rules) return std::nullopt;
                         Archive state;
                         policies.decider().save(state);
                         std::string saved;
                         ByteWriter write(saved);
                         write(state);
                         write(policies.guarded().failed_at());
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
                           }});
}

void send_report(Report&& report) {
  WorkerMessage message;
  *message.mutable_report() = std::move(report);
  send_to_client(message);
}

Recorder::Options recorder_options(const RunRequest& request, RunBackend& backend) {
  return {.path = request.record(),
          .without =
              [&backend](const std::string& why) { return backend.can_continue_without_log(why); },
          .open = [&backend](const std::string& path) { return backend.log_file(open_log(path)); }};
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

/// Runs a request. A forked process sends its report and exits here, because freeing its memory
/// would copy the pages that it shares with other processes.
Report run(const std::string& mode, const RunRequest& request, const BackendMaker& make_backend,
           bool forked) {
  const HostMeter meter;
  const Scenario& scenario = request.scenario();
  const auto cluster =
      std::make_shared<const Cluster>(build_cluster(scenario.cluster(), SourceMap{}));
  std::unique_ptr<Past> past = past_of(request, *cluster);
  ClientInbox inbox;
  RunPolicies policies(request, past.get(), inbox);
  const auto backend = make_backend(with_recorded_failures(request), *cluster, progress_sender());
  policies.connect(request, *backend, cluster);
  ClientApprover approver(request.hand_over().wait_for_verdicts(), inbox, *backend);
  HandOver handed_over(policies.world(*backend),
                       rules_of(request, approver, policies.kill_switch_of(request, *backend)));
  Recorder recorder(handed_over, policies.decider(), header_of(mode, request),
                    recorder_options(request, *backend));
  remember(request, policies, handed_over, recorder, *backend);
  Rng rng = policy_rng(past ? past->header().seed() : scenario.run().seed());
  Context context{rng, {}};

  if (past) go_on_from(request, std::move(past), policies, *backend);
  if (request.until() > 0) backend->end_at(request.until());
  bool branched = false;
  if (request.has_futures()) {
    check_futures(request);
    backend->branch_at(request.futures().at(), [&] {
      branched = true;
      recorder.flush();
      forked = !request.futures().has_only_future();
      const Future future = forked ? begin_futures(request.futures(), send_to_client)
                                   : only_future(request.futures());
      return go_on(future, scenario, policies.succession(), recorder);
    });
  }

  Report report;
  try {
    report.set_decisions(drive(policies.decider(), recorder, context));
    recorder.finish_log();
  } catch (const FuturesEnded&) {
    recorder.release_log();
    forked = false;
  }
  if (request.has_futures() && !branched) {
    backend->fill(report);
    throw Error(ErrorKind::bad_input,
                fmt::format("the run is over after {} s: no futures begin at {} s",
                            report.elapsed_s(), to_seconds(request.futures().at())));
  }
  fill_report(mode, request, recorder, report);
  backend->fill(report);
  report.set_failure_events(count_failure_events(report));
  if (request.has_hand_over() || !policies.guarded().failure().empty()) {
    fill_hand_over(handed_over, policies.guarded(), *report.mutable_hand_over());
  }
  meter.fill(*report.mutable_host());
  policies.meter().fill(*report.mutable_host());
  if (!forked) return report;
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

void RunBackend::branch_at(Nanos, std::function<Continuation()>) {
  throw Error(ErrorKind::bad_input, "futures: expected a simulated scenario with a job");
}

void RunBackend::continue_from(std::unique_ptr<Past>, std::function<bool()>) {
  throw Error(ErrorKind::bad_input, "only a simulated scenario with a job can continue from a log");
}

void RunBackend::end_at(Nanos) {
  throw Error(ErrorKind::bad_input, "only a simulated scenario with a job can end at an instant");
}

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
