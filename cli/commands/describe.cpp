// orrery describe: prints the kind of a file and the main figures of its contents.
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/description.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "traces/clusters/cluster_file.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/models/model_file.hpp"

namespace orrery::cli {
namespace {

struct DescribeOptions {
  std::string file;
  std::uint32_t sequence_length = 0;
  bool json = false;
};

int describe(const DescribeOptions& options) {
  const Description found = describe_file(options.file, options.sequence_length);
  if (options.json) {
    nlohmann::ordered_json out{
        {"file", options.file}, {"kind", found.kind}, {"format", found.format}};
    for (const auto& [key, value] : found.json.items()) out[key] = value;
    out["assumed"] = found.assumed;
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}: {} ({})\n", options.file, found.kind, found.format);
  for (const auto& [label, text] : found.lines) fmt::print("  {:<16}{}\n", label, text);
  for (const std::string& each : found.assumed) fmt::print("  {:<16}{}\n", "assumed", each);
  return 0;
}

}  // namespace

void add_describe(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<DescribeOptions>();
  CLI::App* command =
      app.add_subcommand("describe", "what a file is: a model, a cluster, a scenario, a job log");
  or_example(*command->add_option(
                 "FILE", options->file,
                 fmt::format("scenario or cluster of Orrery, .gz too, or the name of a shipped "
                             "example; models: {}; clusters: {}; job logs: {}",
                             fmt::join(all_names<ModelFormat>(), ", "),
                             fmt::join(all_names<ClusterFormat>(), ", "),
                             fmt::join(job_log_formats(), ", "))))
      .required();
  whole_number(*command->add_option("--sequence-length", options->sequence_length,
                                    "tokens of a sequence, for a model's operations (default: the "
                                    "file's, else 8192)"),
               1, 100'000'000)
      .type_name("N");
  command->add_flag("--json", options->json, "print one JSON object");
  add_examples(*command, {"orrery describe config.json", "orrery describe topology.conf --json"});
  command->callback([options, &chosen] { chosen = [options] { return describe(*options); }; });
}

}  // namespace orrery::cli
