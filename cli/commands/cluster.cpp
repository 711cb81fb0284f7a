// orrery cluster slurm|kubernetes: lets a queue policy act on a real cluster, or watch it.
#include <pwd.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/cluster_session.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/kubernetes_access.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "live/kubernetes/kubernetes_cluster.hpp"
#include "live/slurm/slurm_cluster.hpp"

namespace orrery::cli {
namespace {

// ---- Slurm ----------------------------------------------------------------------------------

constexpr ClusterWords kSlurm{.scheduler = "slurm",
                              .shown = "Slurm",
                              .job = "job",
                              .stop = "requeue",
                              .waits = "seconds that Slurm has to start an ordered job"};

struct SlurmOptions : ClusterOptions {
  SlurmOptions() { lease_s = 20; }
  std::vector<std::string> partitions, accounts;
  std::size_t keeper_from = 1000;
};

/// Returns the name of the user of this process.
std::string own_user() {
  const passwd* const own = getpwuid(geteuid());
  return own == nullptr ? std::to_string(geteuid()) : own->pw_name;
}

void check(const SlurmOptions& options) {
  if (options.partitions.empty() && options.accounts.empty()) {
    throw Error(ErrorKind::usage,
                "expected the jobs that the policy manages, got none: give "
                "--partition P or --account A");
  }
  if (static_cast<double>(options.lease_s) < 4 * options.every_s) {
    throw Error(ErrorKind::usage,
                fmt::format("--lease: expected at least four times --every ({:g} s), got {} s",
                            options.every_s, options.lease_s));
  }
}

int drive_slurm(const SlurmOptions& options) {
  check(options);
  ClusterSession session(options, kSlurm);
  live::SlurmCluster::Options chosen{session.cluster_options(), {}};
  chosen.rules.partitions = {options.partitions.begin(), options.partitions.end()};
  chosen.rules.accounts = {options.accounts.begin(), options.accounts.end()};
  chosen.rules.acts = session.acts();
  chosen.rules.lease_s = options.lease_s;
  chosen.rules.patience_s = options.patience_s;
  chosen.rules.owner = fmt::format("orrery:{}", getpid());
  chosen.rules.keeper_from = options.keeper_from;
  chosen.rules.user = own_user();
  const auto commands = live::installed_slurm(kSlurmPatience);
  live::SlurmCluster cluster(*commands, chosen);
  if (session.acts()) {
    fmt::print(stderr, "orrery: managed jobs start by themselves {} s after this process stops\n",
               options.lease_s);
  }
  return session.run(cluster, 0);
}

void add_slurm(CLI::App& clusters, Action& chosen) {
  CLI::App* slurm = clusters.add_subcommand(
      "slurm", "let a queue policy act on the Slurm whose commands are in PATH, or watch it");
  const auto options = std::make_shared<SlurmOptions>();
  options->add(*slurm, kSlurm);
  slurm
      ->add_option("--partition", options->partitions,
                   "manage the jobs of this partition; repeat for several")
      ->type_name("P")
      ->allow_extra_args(false);
  slurm
      ->add_option("--account", options->accounts,
                   "manage the jobs of this account only; repeat for several")
      ->type_name("A")
      ->allow_extra_args(false);
  options->add_lease(*slurm, "seconds after which Slurm starts a waiting job by itself", 86400);
  whole_number(*slurm->add_option("--keeper-from", options->keeper_from,
                                  "while more managed jobs than this wait, they wait for one "
                                  "keeper job instead of a lease each"),
               1, 1'000'000)
      .type_name("N")
      ->capture_default_str();
  add_examples(*slurm, {"orrery cluster slurm --policy easy --partition gpu",
                        "orrery cluster slurm --policy easy --partition gpu --mode drive "
                        "--record gpu.log",
                        "orrery cluster slurm --policy srtf --partition gpu --account ours --mode "
                        "approve --hook ./ask.sh",
                        "orrery cluster slurm --policy easy --choose srtf,las --by wait "
                        "--partition gpu --mode drive --max-actions 30/min --lease '20 s'"});
  slurm->callback([options, &chosen] { chosen = [options] { return drive_slurm(*options); }; });
}

// ---- Kubernetes -----------------------------------------------------------------------------

constexpr ClusterWords kKubernetes{
    .scheduler = "kubernetes",
    .shown = "Kubernetes",
    .job = "gang",
    .stop = "evict",
    .waits =
        "seconds until a placement that is not carried out is reported, and pause of a gang "
        "after three refused placements"};

struct KubernetesOptions : ClusterOptions, KubernetesAccess {
  KubernetesOptions() { lease_s = 15; }
  std::string lease_object = "orrery/place", extender_address = "0.0.0.0";
  std::uint16_t extender_port = 0;
  std::uint32_t places = 0;
};

live::AdapterProgram adapter_of(const KubernetesOptions& options, bool acts) {
  live::AdapterProgram program = options.adapter_program();
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) program.arguments.push_back(fmt::format("{}={}", name, value));
  };
  if (acts) add("--lease", options.lease_object);
  add("--lease-seconds", std::to_string(options.lease_s));
  if (options.extender_port == 0) return program;
  add("--extender-port", std::to_string(options.extender_port));
  add("--extender-address", options.extender_address);
  return program;
}

void check(const KubernetesOptions& options) {
  const std::size_t slash = options.lease_object.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == options.lease_object.size()) {
    throw Error(ErrorKind::usage, fmt::format("--lease-object: expected NAMESPACE/NAME, got '{}'",
                                              options.lease_object));
  }
  if (static_cast<double>(options.lease_s) < 4 * options.every_s) {
    throw Error(ErrorKind::usage,
                fmt::format("--lease: expected at least four times --every ({:g} s), got {} s",
                            options.every_s, options.lease_s));
  }
}

int drive_kubernetes(const KubernetesOptions& options) {
  check(options);
  ClusterSession session(options, kKubernetes);
  live::KubernetesCluster::Options chosen{session.cluster_options()};
  chosen.acts = session.acts();
  chosen.patience_s = options.patience_s;
  chosen.places = options.places;
  const auto adapter = live::start_adapter(adapter_of(options, session.acts()));
  live::KubernetesCluster cluster(*adapter, chosen);
  return session.run(cluster, cluster.nodes_per_rack());
}

void declare_access(CLI::App& command, KubernetesOptions& options) {
  options.add_access(command);
  options.add_lease(command,
                    "seconds after which another controller takes over from a silent one", 3600);
  command.add_option("--lease-object", options.lease_object, "Lease of the leader election")
      ->type_name("NAMESPACE/NAME")
      ->capture_default_str();
  whole_number(*command.add_option("--extender-port", options.extender_port,
                                   "serve /filter and /prioritize for kube-scheduler's extender"),
               1, 65535)
      .type_name("PORT");
  command.add_option("--extender-address", options.extender_address, "address of the extender")
      ->type_name("ADDRESS")
      ->capture_default_str();
  whole_number(*command.add_option("--places", options.places,
                                   "nodes for which there is room, those that join later "
                                   "included (default: a quarter more than at the start)"),
               1, 100'000)
      .type_name("N");
}

void add_kubernetes(CLI::App& clusters, Action& chosen) {
  CLI::App* kubernetes = clusters.add_subcommand(
      "kubernetes", "let a queue policy place gangs of pods on a Kubernetes cluster, or watch it");
  const auto options = std::make_shared<KubernetesOptions>();
  options->add(*kubernetes, kKubernetes);
  kubernetes
      ->add_option("--namespace,--partition", options->namespaces,
                   "manage the gangs of this namespace; repeat for several")
      ->type_name("NS")
      ->required()
      ->allow_extra_args(false);
  declare_access(*kubernetes, *options);
  add_examples(*kubernetes,
               {"orrery cluster kubernetes --policy easy --namespace ml",
                "orrery cluster kubernetes --policy easy --namespace ml --mode drive --record "
                "ml.log",
                "orrery cluster kubernetes --policy fifo --namespace ml --mode drive "
                "--extender-port 8888"});
  kubernetes->callback(
      [options, &chosen] { chosen = [options] { return drive_kubernetes(*options); }; });
}

}  // namespace

void add_cluster(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("cluster", "let a policy act on a real cluster");
  command->require_subcommand(1);
  add_slurm(*command, chosen);
  add_kubernetes(*command, chosen);
}

}  // namespace orrery::cli
