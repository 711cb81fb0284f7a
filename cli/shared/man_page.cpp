#include "cli/shared/man_page.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "cli/shared/output_file.hpp"
#include "core/error.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

/// Returns text that roff prints as it is: hyphens stay hyphens, and no line is a request.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Returns the commands of the program, or the kinds of a command, that the help shows.
std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
}

std::string synopsis(const CLI::App& app, const std::string& called) {
  std::string line = fmt::format(".B {}\n[OPTION]...", escaped(called));
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    line += option->get_required() ? " " : " [";
    line += escaped(option->get_name(true)) + (option->get_required() ? "" : "]");
  }
  if (!shown_commands(app).empty()) line += " ...";
  return line + "\n";
}

std::string options(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const bool positional = option->get_positional();
    text += fmt::format(".TP\n.B {}\n{}\n", escaped(option_label(*option, positional)),
                        escaped(option_meaning(*option, positional)));
  }
  return text;
}

/// Returns the footer of a help text as sections; its lines are kept.
std::string footer(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  bool open = false;
  for (std::string line; std::getline(lines, line);) {
    const bool examples = line.starts_with("Examples:");
    if (examples || line.starts_with("Exit codes: ")) {
      if (open) out += ".fi\n";
      out += examples ? ".SH EXAMPLES\n.nf\n" : ".SH EXIT STATUS\n.nf\n";
      open = true;
      if (!examples) out += escaped(line.substr(line.find(": ") + 2)) + "\n";
      continue;
    }
    if (!open && line.empty()) continue;
    if (!open) out += ".SH NOTES\n.nf\n";
    open = true;
    out += escaped(line) + "\n";
  }
  return out + (open ? ".fi\n" : "");
}

std::string page_text(const CLI::App& app, const std::string& called, const std::string& name) {
  const std::string about = app.get_description();
  std::string text =
      fmt::format(".TH {} 1 \"\" \"orrery {}\" \"Orrery\"\n", upper(escaped(name)), version());
  text += fmt::format(".SH NAME\n{} \\- {}\n", escaped(name), escaped(about));
  text += ".SH SYNOPSIS\n" + synopsis(app, called);
  text += ".SH OPTIONS\n" + options(app);
  const bool is_program = called == name;
  if (is_program) text += ".SH COMMANDS\n";
  for (const CLI::App* each : shown_commands(app)) {
    if (is_program) {
      text += fmt::format(".TP\n.BR {}\\-{} (1)\n{}\n", name, escaped(each->get_name()),
                          escaped(each->get_description()));
    } else {
      const std::string kind = called + " " + each->get_name();
      text += fmt::format(".SH {}\n{}\n.PP\n{}{}", upper(escaped(kind)),
                          escaped(each->get_description()), synopsis(*each, kind), options(*each));
    }
  }
  text += footer(app.get_footer());
  if (!is_program) text += ".SH SEE ALSO\n.BR orrery (1)\n";
  return text;
}

}  // namespace

std::string option_label(const CLI::Option& option, bool positional) {
  if (positional) return option.get_name(true);
  std::string label;
  for (const std::string& letter : option.get_snames()) label += "-" + letter + ", ";
  for (const std::string& word : option.get_lnames()) label += "--" + word + ", ";
  label.resize(label.size() - 2);
  const std::string value = option.get_type_size() != 0 ? option.get_type_name() : "";
  if (!value.empty()) label += ' ' + value;
  return label;
}

std::string option_meaning(const CLI::Option& option, bool positional) {
  std::string meaning = option.get_description();
  if (!positional && option.get_required()) meaning += " (required)";
  if (!option.get_default_str().empty()) {
    meaning += fmt::format(" (default: {})", option.get_default_str());
  }
  return meaning;
}

std::vector<ManPage> man_pages(const CLI::App& app) {
  const std::string& program = app.get_name();
  std::vector<ManPage> pages = {{program, page_text(app, program, program)}};
  for (const CLI::App* command : shown_commands(app)) {
    const std::string name = program + "-" + command->get_name();
    pages.push_back({name, page_text(*command, program + " " + command->get_name(), name)});
  }
  return pages;
}

std::size_t write_man_pages(const CLI::App& app, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::environment,
                fmt::format("--man: expected a folder that can be created, found '{}': {}", folder,
                            failed.message()));
  }
  const std::vector<ManPage> pages = man_pages(app);
  for (const ManPage& page : pages) {
    write_file(fmt::format("{}/{}.1", folder, page.name), page.text);
  }
  return pages.size();
}

}  // namespace orrery::cli
