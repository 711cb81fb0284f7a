#include "cli/shared/help.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/shared/man_page.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kNameColumn = 28;  // column of the sentences
constexpr std::size_t kNarrowest = 40, kWidest = 100;

/// Returns a name with its meaning in the next column, or below if the name is too long.
std::string entry(const std::string& name, const std::string& meaning, std::size_t width) {
  const std::size_t indent = std::min(kNameColumn, width / 3);
  std::string out = "  " + name;
  if (out.size() + 2 > indent) {
    out += '\n' + std::string(indent, ' ');
  } else {
    out.resize(indent, ' ');
  }
  return out + wrapped(meaning, indent, width) + '\n';
}

/// Formatter of help texts: a column of names and a column of descriptions.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t width) : width_(width) {}

  std::string make_option(const CLI::Option* option, bool positional) const override {
    return entry(option_label(*option, positional), option_meaning(*option, positional), width_);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description(), width_);
  }

  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), 0, width_) + "\n\n";
  }

 private:
  const std::size_t width_;
};

std::size_t number(const char* text) {
  std::size_t value = 0;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), value);
  return value;
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::istringstream words(text);
  std::string out;
  std::size_t column = indent;
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::size_t help_width() {
  std::size_t width = number(std::getenv("COLUMNS"));
  winsize window{};
  if (width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) width = window.ws_col;
  if (width == 0) width = kWidest;
  return std::clamp(width, kNarrowest, kWidest);
}

std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width) {
  return std::make_shared<HelpFormatter>(width);
}

void add_examples(CLI::App& command, std::initializer_list<const char*> lines) {
  std::string text = "Examples:\n";
  for (const char* line : lines) text += fmt::format("  {}\n", line);
  command.footer(text + "\n" + command.get_footer());
}

void add_help(CLI::App& app, std::function<int()>& chosen) {
  const auto name = std::make_shared<std::string>(), folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("help", "print the help of a command");
  command->add_option("COMMAND", *name, "command (default: all commands)");
  command
      ->add_option("--man", *folder,
                   "write the manual pages of all commands into this folder instead")
      ->type_name("FOLDER");
  command->callback([name, folder, &app, &chosen] {
    chosen = [name, folder, &app] {
      if (!folder->empty()) {
        fmt::print("{}: {} pages\n", *folder, write_man_pages(app, *folder));
        return 0;
      }
      const CLI::App* about = &app;
      if (!name->empty()) {
        about = find_command(app, *name);
        if (about == nullptr) throw Error(ErrorKind::usage, unknown_command(app, *name));
      }
      std::string called = app.get_name();
      if (about != &app) called += ' ' + about->get_name();
      // help() of the program would print the help of this subcommand, because it was parsed.
      fmt::print("{}", app.get_formatter()->make_help(about, called, CLI::AppFormatMode::Normal));
      return 0;
    };
  });
}

}  // namespace orrery::cli
