//! The real agents through the whole system: a task is added, pulses start its agent, prove its
//! work and merge it.
//!
//! What goes wrong on the way goes wrong as it does in life: the model refuses, falls silent or is
//! wrong, and the agent is killed.

mod cases;
mod harness;
mod judging;
mod planning;
mod secrets;

use super::needs_claude::{CLAUDE, SUBSCRIBED};
use super::needs_codex::CODEX;
use super::needs_gemini::{GEMINI, OVER_ACP, WITH_TOOLS};
use super::needs_opencode::{self as opencode, BY_FILE};

mod needs_claude {
    use super::*;

    #[test]
    fn work_of_claude_lands() {
        cases::lands(&CLAUDE);
    }

    #[test]
    fn claude_hears_of_a_failed_check_in_its_session() {
        cases::check_fails_first(&CLAUDE);
    }

    #[test]
    fn a_used_up_plan_of_claude_pauses_the_account() {
        cases::plan_limit(&SUBSCRIBED);
    }

    #[test]
    fn a_refused_key_of_claude_waits_for_a_person() {
        cases::refused_key(&CLAUDE);
    }

    #[test]
    fn claude_is_nudged_in_its_session() {
        cases::stall_and_nudge(&CLAUDE);
    }

    #[test]
    fn claude_is_killed_in_a_tool_and_tried_again() {
        cases::killed_in_a_tool(&CLAUDE);
    }

    #[test]
    fn claude_asks_a_person_and_gets_the_answer() {
        cases::asks_a_person(&CLAUDE);
    }

    #[test]
    fn claude_is_ended_at_its_budget() {
        cases::over_budget(&CLAUDE);
    }

    mod needs_postgres {
        use super::*;

        #[test]
        fn claude_sees_no_secret_that_is_not_its_own() {
            secrets::are_kept(&CLAUDE);
        }
    }
}

mod needs_codex {
    use super::*;

    #[test]
    fn work_of_codex_lands() {
        cases::lands(&CODEX);
    }

    #[test]
    fn codex_hears_of_a_failed_check_in_its_session() {
        cases::check_fails_first(&CODEX);
    }

    #[test]
    fn a_used_up_plan_of_codex_pauses_the_account() {
        cases::plan_limit(&CODEX);
    }

    #[test]
    fn a_refused_key_of_codex_waits_for_a_person() {
        cases::refused_key(&CODEX);
    }

    #[test]
    fn codex_is_nudged_in_its_session() {
        cases::stall_and_nudge(&CODEX);
    }

    #[test]
    fn codex_is_killed_in_a_tool_and_tried_again() {
        cases::killed_in_a_tool(&CODEX);
    }

    #[test]
    fn codex_asks_a_person_and_gets_the_answer() {
        cases::asks_a_person(&CODEX);
    }

    mod needs_postgres {
        use super::*;

        #[test]
        fn codex_sees_no_secret_that_is_not_its_own() {
            secrets::are_kept(&CODEX);
        }
    }
}

mod needs_gemini {
    use super::*;

    #[test]
    fn work_of_gemini_lands() {
        cases::lands(&GEMINI);
    }

    #[test]
    fn gemini_hears_of_a_failed_check_in_its_session() {
        cases::check_fails_first(&GEMINI);
    }

    /// It tells its caller no time, so the account rests for as long as the failure policy has it.
    #[test]
    fn a_used_up_plan_of_gemini_pauses_the_account() {
        cases::plan_limit_without_a_time(&GEMINI);
    }

    #[test]
    fn a_refused_key_of_gemini_waits_for_a_person() {
        cases::refused_key(&GEMINI);
    }

    #[test]
    fn gemini_is_nudged_in_its_session() {
        cases::stall_and_nudge(&GEMINI);
    }

    #[test]
    fn gemini_is_killed_in_a_tool_and_tried_again() {
        cases::killed_in_a_tool(&GEMINI);
    }

    #[test]
    fn gemini_asks_a_person_and_gets_the_answer() {
        cases::asks_a_person(&WITH_TOOLS);
    }

    #[test]
    fn gemini_over_the_client_protocol_asks_a_person_and_gets_the_answer() {
        cases::asks_a_person(&OVER_ACP);
    }

    mod needs_postgres {
        use super::*;

        #[test]
        fn gemini_sees_no_secret_that_is_not_its_own() {
            secrets::are_kept(&GEMINI);
        }
    }
}

mod needs_opencode {
    use super::*;

    #[test]
    fn work_of_opencode_lands() {
        cases::lands(&BY_FILE);
    }

    #[test]
    fn opencode_that_waits_for_its_plan_is_ended_and_the_account_is_paused() {
        cases::waits_for_its_plan(&BY_FILE);
    }

    #[test]
    fn work_of_opencode_over_the_client_protocol_lands() {
        cases::lands(&opencode::OVER_ACP);
    }

    #[test]
    fn opencode_over_the_client_protocol_asks_a_person_and_gets_the_answer() {
        cases::asks_a_person(&opencode::OVER_ACP);
    }
}
