#include "cli/shared/completion.hpp"

#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/Option.hpp>

#include "cli/shared/help.hpp"
#include "cli/shared/usage.hpp"
#include "policies/run/registry.hpp"

namespace orrery::cli {
namespace {

using Words = std::vector<std::string>;

std::vector<const CLI::App*> commands_of(const CLI::App& app) { return app.get_subcommands({}); }

Words option_words(const CLI::App& command) {
  Words words;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

/// Returns the valid values of an option or a positional; empty if it takes any value.
Words values_of(const CLI::Option& option) {
  if (option.check_lname("policy") || option.check_lname("policies")) return policy_names();
  return choices_of(option);
}

/// Returns the words that can follow a command: its kinds, and the values of its first positional.
Words first_words(const CLI::App& command) {
  Words words;
  for (const CLI::App* kind : commands_of(command)) words.push_back(kind->get_name());
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    for (std::string& word : values_of(*option)) words.push_back(std::move(word));
    break;
  }
  return words;
}

/// Returns the options of a command and of its kinds.
Words all_options(const CLI::App& command) {
  Words words = option_words(command);
  for (const CLI::App* kind : commands_of(command)) {
    for (std::string& word : option_words(*kind)) words.push_back(std::move(word));
  }
  return words;
}

std::string bash_case(const CLI::App& command) {
  std::string text = fmt::format("    {})\n", command.get_name());
  text += "      case $before in\n";
  for (const CLI::Option* option : command.get_options()) {
    const Words values = values_of(*option);
    if (values.empty() || option->get_positional()) continue;
    text += fmt::format("        --{}) words='{}' ;;\n", option->get_lnames().front(),
                        fmt::join(values, " "));
  }
  text += fmt::format("        *) words='{}'; options='{}' ;;\n      esac ;;\n",
                      fmt::join(first_words(command), " "), fmt::join(all_options(command), " "));
  return text;
}

std::string bash_script(const CLI::App& app) {
  Words names;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    names.push_back(command->get_name());
    cases += bash_case(*command);
  }
  return fmt::format(R"(_orrery() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command= word words= options=
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $word == -* ]] || {{ command=$word; break; }}
  done
  case $command in
    '') words='{}'; options='{}' ;;
{}  esac
  [[ $current == -* ]] && words=$options
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _orrery orrery
)",
                     fmt::join(names, " "), fmt::join(option_words(app), " "), cases);
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_option(const std::string& command, const CLI::Option& option) {
  if (option.get_lnames().empty()) return {};
  std::string line = fmt::format("complete -c orrery -n '__fish_seen_subcommand_from {}' -l {}",
                                 command, option.get_lnames().front());
  const Words values = values_of(option);
  if (!values.empty()) line += fmt::format(" -x -a '{}'", fmt::join(values, " "));
  if (values.empty() && option.get_type_size() != 0) line += " -r";
  return line + fmt::format(" -d {}\n", fish_quoted(option.get_description()));
}

std::string fish_script(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : commands_of(app)) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c orrery -n '__fish_use_subcommand' -f -a {} -d {}\n", name,
                        fish_quoted(command->get_description()));
    for (const std::string& word : first_words(*command)) {
      text +=
          fmt::format("complete -c orrery -n '__fish_seen_subcommand_from {}' -a {}\n", name, word);
    }
    for (const CLI::Option* option : command->get_options()) text += fish_option(name, *option);
    for (const CLI::App* kind : commands_of(*command)) {
      for (const CLI::Option* option : kind->get_options()) text += fish_option(name, *option);
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, Shell shell) {
  if (shell == Shell::fish) return "# orrery completion fish | source\n" + fish_script(app);
  if (shell == Shell::bash) return "# source <(orrery completion bash)\n" + bash_script(app);
  // zsh runs bash's functions.
  return "# source <(orrery completion zsh)\nautoload -U +X compinit && compinit\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(app);
}

void add_completion(CLI::App& app, std::function<int()>& chosen) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion",
      "print the script with which a shell completes commands, options and their "
      "values");
  one_of(*command->add_option("SHELL", *shell, "bash, zsh or fish")->required(),
         all_names<Shell>());
  add_examples(*command, {"source <(orrery completion bash)"});
  command->callback([shell, &app, &chosen] {
    chosen = [shell, &app] {
      fmt::print("{}", completion_script(app, named<Shell>(*shell)));
      return 0;
    };
  });
}

}  // namespace orrery::cli
