#include "cli/shared/program_policies.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/shared/operator.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "live/programs/policies/program_backend.hpp"
#include "live/run/files/run_files.hpp"
#include "policies/handover/fallback.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/record/past.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/policy_meter.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/threaded_policy.hpp"
#include "policies/seam/drive.hpp"
#include "topologies/builder.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

/// Node of the ranks: their number, and GB of memory for each. The memory bandwidth is a guess for
/// one processor core, by which policies predict the time of codes. The other figures of a GPU are
/// the smallest that a description may have: of the places of the ranks nothing else is known.
constexpr const char* kPlaces =
    "{{nodes: 1, node: {{gpu: place, gpus_per_node: {}, nics_per_node: 1, nic_bandwidth: 0.1 "
    "GB/s}}, fabric: {{kind: flat}}, gpus: [{{name: place, memory: {:.3f} GB, memory_bandwidth: 10 "
    "GB/s, "
    "fp32: 1 GFLOP/s, bf16: 1 GFLOP/s, pcie: 1 GB/s, idle_power: 1 W, max_power: 1 W, source: "
    "[places "
    "of the ranks of a program]}}]}}";
/// Limits of the memory of a container, in bytes: control groups of version 2 and 1.
constexpr const char* kMemoryLimits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
constexpr double kBytesOfGB = 1e9;
/// Limits of the memory of a place in GB, as a description may have it.
constexpr double kLeastMemory = 1, kMostMemory = 10'000;
constexpr double kFlush_s = 1;             ///< time between two writes of the log
constexpr std::uint32_t kMostRanks = 128;  ///< GPUs that a node may have

std::string read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (in) return {std::istreambuf_iterator<char>(in), {}};
  throw Error(SourcePlace{.file = file, .line_text = ""},
              fmt::format("cannot be read: {}", std::strerror(errno)));
}

/// Returns the memory for each of `ranks` ranks in GB: an equal part of that of the machine, or of
/// its container.
double rank_memory(std::uint32_t ranks) {
  double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  for (const char* const path : kMemoryLimits) {
    std::ifstream file(path);
    double limit = 0;
    if (file >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return std::clamp(bytes / kBytesOfGB / ranks, kLeastMemory, kMostMemory);
}

/// Returns why a program cannot have the policy; empty: it can.
std::string queue_problem(const std::string& policy) {
  const std::vector<std::string> queues = queue_policy_names();
  if (std::find(queues.begin(), queues.end(), policy) == queues.end()) return "";
  return fmt::format("expected a policy of trainings, found '{}', which orders a queue of jobs: a "
                     "program is one job; `orrery list policies` has the others",
                     policy);
}

/// Returns the scenario of a program with `ranks` ranks: the policies of `file`, if one is given,
/// and the places of the ranks as its cluster. Throws bad_input for a key that a program cannot
/// have.
Scenario load_policies(const std::string& file, std::uint32_t ranks) {
  std::string text = file.empty() ? "policies: []\n" : read_text(file);
  Scenario given, scenario;
  check_yaml(text, file, given);
  // A scenario must have these keys. They follow the text, so that its lines keep their numbers.
  if (given.name().empty()) text += "\nname: program";
  if (!given.has_cluster()) text += "\ncluster: " + fmt::format(kPlaces, ranks, rank_memory(ranks));
  if (!given.has_run()) text += "\nrun: {steps: 1, seed: 1}";
  const SourceMap places = load_yaml(text + "\n", file, scenario);
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  Scenario::GetReflection()->ListFields(given, &fields);
  for (const auto* field : fields) {
    const int number = field->number();
    const bool is_known = number == Scenario::kNameFieldNumber ||
                          number == Scenario::kDescriptionFieldNumber ||
                          number == Scenario::kPoliciesFieldNumber;
    if (is_known) continue;
    throw problem_at(places, field->name(),
                     fmt::format("expected policies, found '{}', which has no effect on a program; "
                                 "remove the key",
                                 field->name()));
  }
  if (!file.empty() && scenario.policies().empty()) {
    throw problem_at(places, "", "expected the key 'policies', found none");
  }
  for (int i = 0; i < scenario.policies_size(); ++i) {
    const std::string problem = queue_problem(scenario.policies(i).name());
    if (!problem.empty()) throw problem_at(places, fmt::format("policies[{}].name", i), problem);
  }
  for (PolicySpec& policy : *scenario.mutable_policies()) fill_defaults(policy);
  resolve(*scenario.mutable_cluster(), SourceMap{}, "cluster");
  return scenario;
}

/// Policies whose needs are compared with the parts of a program when they start.
class CheckedPolicy : public Policy {
 public:
  CheckedPolicy(Policy& inner, const PolicyStack& stack, const live::ProgramFeatures& features,
                std::string names)
      : inner_(inner), stack_(stack), features_(features), names_(std::move(names)) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
    for (const PolicyStack::Member& member : stack_.members()) {
      const std::string missing = live::missing_features(features_, member.policy->needs());
      if (missing.empty()) continue;
      const bool is_named = is_policy(member.name);
      throw Error(ErrorKind::environment,
                  fmt::format("the policy '{}' needs a part that this program lacks: {}",
                              is_named ? member.name : names_, missing));
    }
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    inner_.observe(context, seen, decisions);
  }
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

 private:
  Policy& inner_;
  const PolicyStack& stack_;
  const live::ProgramFeatures& features_;
  const std::string names_;
};

HandOverRules rules_of(const RunRequest& request, Approver& approver, Operator& operated) {
  const HandOverOrder& order = request.hand_over();
  HandOverRules rules{.mode = hand_over_mode(request.mode()),
                      .per_hour = order.decisions_per_hour(),
                      .approver = &approver,
                      .stopped = [&operated, file = order.kill_switch()] {
                        std::error_code unknown;
                        return operated.is_halted() ||
                               (!file.empty() && std::filesystem::exists(file, unknown));
                      }};
  if (order.patience() > 0) rules.patience = order.patience();
  return rules;
}

/// Returns the path of the log of a killed `orrery run` while its successor writes it again.
std::string earlier_log(const std::string& path) { return path + ".earlier"; }

/// Cuts a record off at the end of the log of which not all bytes were written.
void cut_torn_record(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::size_t whole = 0;
  for (std::size_t at = 0; at < bytes.size(); whole = at) {
    std::uint64_t length = 0;
    int shift = 0;
    bool continues = true;
    for (; continues && at < bytes.size() && shift < 64; ++at, shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      length |= std::uint64_t(byte & 0x7F) << shift;
      continues = (byte & 0x80) != 0;
    }
    if (continues || length > bytes.size() - at) break;
    at += length;
  }
  std::error_code ignored;
  if (whole < bytes.size()) std::filesystem::resize_file(path, whole, ignored);
}

/// Puts the log of a killed `orrery run` aside, of two logs the longer one: a successor that was
/// killed, too, may have written only a part anew.
void keep_earlier_log(const std::string& path) {
  std::error_code absent;
  const std::string partial = partial_log(path), earlier = earlier_log(path);
  const auto written = std::filesystem::file_size(partial, absent);
  const bool has_partial = !absent;
  const auto kept = std::filesystem::file_size(earlier, absent);
  const bool is_longer = has_partial && (absent || written >= kept);
  if (is_longer) std::filesystem::rename(partial, earlier, absent);
  if (std::filesystem::exists(earlier, absent)) cut_torn_record(earlier);
}

LogHeader header_of(const RunRequest& request) {
  LogHeader header;
  header.set_version(version());
  header.set_mode("run");
  header.set_seed(request.scenario().run().seed());
  *header.mutable_scenario() = request.scenario();
  header.set_policy_outside(request.policy_outside());
  header.set_fall_back(request.hand_over().fall_back());
  *header.mutable_outside_policies() = request.policy_outside_names();
  return header;
}

}  // namespace

void ProgramPolicyOptions::add(CLI::App& command) {
  or_example(*command.add_option("--scenario", scenario,
                                 "scenario (YAML) whose policies decide, or the name of a shipped "
                                 "example"))
      .type_name("FILE");
  add_policy_option(command, policies);
  const std::size_t others = command.get_options().size();
  operation.add(command, "static", 60);
  command.add_option("--record", record, "write the observation and decision log")
      ->type_name("LOG");
  const std::vector<CLI::Option*> all = command.get_options();
  about_decisions_.assign(all.begin() + static_cast<std::ptrdiff_t>(others), all.end());
}

void ProgramPolicyOptions::require_policies() const {
  if (has_policies()) return;
  for (const CLI::Option* option : about_decisions_) {
    if (option->count() == 0) continue;
    throw Error(ErrorKind::usage,
                fmt::format("{}: expected a policy whose decisions it is about (--policy, "
                            "--scenario), found none; add one, or leave the option out",
                            option->get_name()));
  }
}

ProgramPolicies::ProgramPolicies(const ProgramPolicyOptions& options, const std::string& name,
                                 std::uint32_t ranks)
    : options_(options) {
  if (ranks > kMostRanks) {
    throw Error(ErrorKind::usage, fmt::format("expected at most {} ranks under policies, found {}",
                                              kMostRanks, ranks));
  }
  Scenario& scenario = *request_.mutable_scenario();
  scenario = load_policies(options.scenario, ranks);
  for (const PolicySpec& spec : options.specs) *scenario.add_policies() = spec;
  scenario.set_name(name);
  cluster_ = std::make_shared<const Cluster>(build_cluster(scenario.cluster(), SourceMap{}));
  options.operation.fill(request_, false);
  std::unique_ptr<Policy> outside = choose_policies(options.policies, request_);
  if (outside == nullptr) {
    stack_ = make_stack(scenario, SourceMap{});
    for (const PolicySpec& spec : scenario.policies()) {
      names_.push_back(spec.name());
      const std::string problem = queue_problem(spec.name());
      if (!problem.empty()) throw Error(ErrorKind::usage, problem);
      const Needs needs = make_policy(spec.name(), {})->needs();
      decides_recovery_ = decides_recovery_ || needs.actions.has<Assign>();
    }
  } else {
    request_.set_policy_outside(true);
    names_ = options.policies;
    Rng rng = policy_rng(scenario.run().seed());
    Context context{rng, {Kinds<orrery::Action>::all(), Kinds<Setting>::all()}};
    outside->start(context, *cluster_, nullptr);
    decides_recovery_ = outside->needs().actions.has<Assign>();
    std::vector<PolicyStack::Member> members;
    members.push_back({.name = "outside", .policy = std::move(outside), .parameters = nullptr});
    stack_ = std::make_shared<PolicyStack>(std::move(members));
  }
  decides_recovery_ = decides_recovery_ && hand_over_mode(request_.mode()) != HandOverMode::shadow;
}

std::vector<ParameterSet> ProgramPolicies::drain_parameters(ProgramStatus& status) const {
  std::vector<ParameterSet> accepted;
  for (ParameterSet& set : status.drain_parameters()) {
    try {
      if (request_.policy_outside()) {
        throw Error(ErrorKind::bad_input, "policies of a file or program have no parameters");
      }
      check_parameter(request_.scenario(), set, *cluster_);
      status.add_line(fmt::format("{}.{} = {}", set.policy, set.parameter, set.value));
      accepted.push_back(std::move(set));
    } catch (const Error& error) {
      status.add_line(std::string(live::kOrderRefused) + error.message());
    }
  }
  return accepted;
}

PolicyMeter::Rules ProgramPolicies::meter_rules(live::ProgramBackend& backend) const {
  const char* const noun = names_.size() == 1 ? "policy" : "policies";
  return {
      .timeout = request_.policy_timeout(),
      .name = [text = fmt::format("the {} '{}'", noun, fmt::join(names_, "', '"))] { return text; },
      .attend =
          [&backend] {
            backend.attend_ranks();
            return false;
          },
      .pause_ms = 10};
}

void ProgramPolicies::offer_plugins(const std::string& folder) {
  plugins_ = offer_nccl_plugins(folder, request_.policy_timeout());
}

/// Returns why the log of the killed `orrery run` cannot be continued; empty: it can.
std::string ProgramPolicies::past_problem() const {
  const std::string path = earlier_log(options_.record);
  if (options_.record.empty()) return "without --record LOG nobody knows their state";
  if (!std::filesystem::exists(path)) return options_.record + " has not begun";
  const HandOverOrder& order = request_.hand_over();
  const bool filters = hand_over_mode(request_.mode()) != HandOverMode::drive ||
                       order.decisions_per_hour() > 0 || !order.kill_switch().empty();
  if (filters) return "their decisions are not all carried out (--mode, limits)";
  try {
    Past past(path, {}, *cluster_);
    while (past.next()) past.check_decisions(DecisionList());
    const JobInfo* const job = past.world().jobs().find(JobId{0});
    const bool trains = job != nullptr && job->phase == JobPhase::running && !job->is_restarting;
    return trains ? "" : "the log does not end while the program trains";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Reads the log of the killed `orrery run`, in which the policies find their state. Without one
/// they begin anew.
void ProgramPolicies::take_past(std::optional<Past>& past,
                                const live::ProgramAttempts& attempts) const {
  if (!options_.record.empty()) keep_earlier_log(options_.record);
  const std::string problem = past_problem();
  if (problem.empty()) {
    past.emplace(earlier_log(options_.record), std::nullopt, *cluster_);
    return attempts.print_line("the policies continue with their state from " + options_.record);
  }
  attempts.print_line("the policies begin anew, with the program as it is: " + problem);
  if (options_.record.empty() || !std::filesystem::exists(earlier_log(options_.record))) return;
  attempts.print_line("the log up to here is " + earlier_log(options_.record));
}

ProgramPolicyReport ProgramPolicies::run(live::ProgramAttempts& attempts, ProgramStatus& status) {
  const HandOverMode mode = hand_over_mode(request_.mode());
  std::optional<live::ProgramCollectives> collectives;
  if (!plugins_.reports.empty()) collectives.emplace(plugins_.table, plugins_.reports);
  std::optional<Past> past;
  if (attempts.is_taken_over()) take_past(past, attempts);
  double flushed_s = 0;
  Recorder* log = nullptr;
  const auto keep_log = [&log, &flushed_s, &past, this] {
    if (log == nullptr || live::monotonic_s() - flushed_s < kFlush_s) return;
    log->flush();
    flushed_s = live::monotonic_s();
    std::error_code ignored;
    if (past) std::filesystem::remove(earlier_log(options_.record), ignored);
  };
  live::ProgramBackend backend(attempts, *cluster_,
                               {.name = request_.scenario().name(),
                                .restarts_alone = !decides_recovery_,
                                .begins_alone = mode == HandOverMode::shadow,
                                .waits_for_answers = mode == HandOverMode::approve,
                                .drain_parameters =
                                    [this, &status, &keep_log] {
                                      keep_log();
                                      return drain_parameters(status);
                                    },
                                .collectives = collectives ? &*collectives : nullptr,
                                .no_table = plugins_.no_table,
                                .past = past ? &*past : nullptr});
  ProgramPolicyReport report{.names = names_, .mode = request_.mode()};
  if (!backend.await_first_step()) {
    attempts.print_line("the program ended before an optimizer step: the policies decided nothing");
    return report;
  }
  meter_.set_rules(meter_rules(backend));
  status.watch_policies(meter_);
  ThreadedPolicy threaded(stack_, cluster_, meter_);
  CheckedPolicy checked(threaded, *stack_, backend.features(),
                        fmt::format("{}", fmt::join(names_, ", ")));
  FallbackPolicy guarded(checked, request_.hand_over().fall_back());
  MeteredPolicy decider(guarded, meter_);
  const std::unique_ptr<Operator> operated = options_.operation.make_operator(false);
  OperatorApprover approver(*operated);
  HandOver handed_over(backend, rules_of(request_, approver, *operated));
  try {
    Recorder recorder(handed_over, decider, header_of(request_),
                      {.path = options_.record, .without = [&attempts](const std::string& why) {
                         attempts.print_line("the log ends: " + why);
                         return true;
                       }});
    if (!options_.record.empty()) log = &recorder;
    Rng rng = policy_rng(request_.scenario().run().seed());
    Context context{rng, {}};
    report.decisions = drive(decider, recorder, context);
    log = nullptr;
    recorder.finish_log();
    report.trace_sha256 = recorder.trace_sha256();
  } catch (...) {
    backend.end_program();
    throw;
  }
  report.applied = backend.applied_decisions();
  report.failure = guarded.failure();
  for (const std::string& warning : operated->end_run()) attempts.print_line(warning);
  return report;
}

}  // namespace orrery::cli
