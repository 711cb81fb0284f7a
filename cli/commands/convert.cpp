// orrery convert: writes a scenario, a topology, a replay or a recorded log in the newest format.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/description.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/file_format.hpp"
#include "core/schema/format_conversion.hpp"
#include "policies/record/log_converter.hpp"
#include "policies/record/log_format.hpp"
#include "traces/files/csv.hpp"
#include "traces/files/unpack.hpp"

namespace orrery::cli {
namespace {

struct ConvertOptions {
  std::string file, out;
  std::string from;  ///< version of a file that states none; empty: the newest
};

/// Returns the name of the message of a YAML file. Throws bad_input for any other kind of file.
std::string_view message_of(const std::string& file) {
  const Description found = describe_file(file, 0);
  if (found.kind == "scenario") return "orrery.Scenario";
  if (found.kind == "replay") return "orrery.JobReplay";
  if (found.format == "cluster of Orrery") return "orrery.Topology";
  throw Error(
      SourcePlace{.file = file, .line_text = ""},
      fmt::format("expected a scenario, a topology, a replay or a log of orrery, found a {} "
                  "({}); orrery import converts files of other tools",
                  found.kind, found.format));
}

int convert_yaml(const ConvertOptions& options, const std::string& text) {
  const std::string_view message = message_of(options.file);
  FormatVersion assumed = kFileFormat;
  for (const FormatVersion each : kFileFormats) {
    if (format_text(each) == options.from) assumed = each;
  }
  const ConvertedText done = convert_text(text, options.file, message, assumed);
  write_file(options.out, done.text);
  fmt::print("{}: {}, format {}; {}: format {}\n", options.file, *kind_of_file(message),
             format_text(done.from), options.out, format_text(kFileFormat));
  for (const std::string& change : done.changes) fmt::print("{}\n", change);
  return 0;
}

int convert(const ConvertOptions& options) {
  const std::string text = read_packed_text(options.file);
  if (first_bad_byte(text) == std::string::npos) return convert_yaml(options, text);
  const ConvertedLog done = convert_log(options.file, options.out);
  fmt::print("{}: log of {} calls, format {}; {}: format {}\n", options.file, done.calls,
             format_text(done.from), options.out, format_text(done.to));
  if (done.to > kLogFormat) {
    fmt::print("nothing changed: this orrery writes log format {}, and keeps a newer one\n",
               format_text(kLogFormat));
  }
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "write a scenario, a topology or a recorded log in the newest format");
  or_example(*command->add_option("FILE", options->file,
                                  "scenario, topology, replay (YAML), recorded log, or the name of "
                                  "a shipped example"))
      .required();
  command->add_option("-o,--out", options->out, "file to write; may be FILE itself")
      ->type_name("OUT")
      ->required();
  std::vector<std::string> versions;
  for (const FormatVersion each : kFileFormats) versions.push_back(format_text(each));
  one_of(*command->add_option("--from", options->from,
                              "format of a YAML file that states none with its key 'format' "
                              "(default: the newest)"),
         versions);
  add_examples(*command,
               {"orrery convert train.yaml -o train.yaml", "orrery convert old.log -o new.log"});
  command->callback([options, &chosen] { chosen = [options] { return convert(*options); }; });
}

}  // namespace orrery::cli
