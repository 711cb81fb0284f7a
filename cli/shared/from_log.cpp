#include "cli/shared/from_log.hpp"

#include <optional>

#include <fmt/format.h>

#include "cli/shared/log_note.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "core/units.hpp"
#include "policies/record/past.hpp"

namespace orrery::cli {

FromLog from_log(const std::string& written) {
  FromLog from;
  const std::size_t mark = written.rfind('@');
  std::optional<double> seconds;
  if (mark != std::string::npos) {
    seconds = parse_quantity(written.substr(mark + 1), Dimension::time);
  }
  const bool timed = seconds && *seconds >= 0 && *seconds < 9e9;
  from.order.set_path(timed ? written.substr(0, mark) : written);
  from.at = log_end(from.order.path());
  print_log_note(from.order.path(), log_header(from.order.path()));
  if (timed) {
    if (to_nanos(*seconds) > from.at) {
      throw Error(SourcePlace{.file = from.order.path(), .line_text = ""},
                  fmt::format("expected an instant up to the end of the log, {}s, found @{}; "
                              "leave the @ out to continue from the end",
                              to_seconds(from.at), written.substr(mark + 1)));
    }
    from.at = to_nanos(*seconds);
    from.order.set_until(from.at);
  }
  return from;
}

LoadedScenario FromLog::load(const std::vector<std::string>& overrides) const {
  const Scenario scenario = log_header(order.path()).scenario();
  return parse_scenario(to_yaml_json(scenario).dump(), order.path(), overrides);
}

}  // namespace orrery::cli
