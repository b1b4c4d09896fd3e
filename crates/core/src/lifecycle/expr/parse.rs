//! Builds the syntax of an expression by recursive descent. It resolves no name and knows no type.
//!
//! From loose to tight: `or`, `and`, `not`, one comparison, `+` and `-`, a value. Chains of one
//! operator are kept flat, so the depth of the tree is the nesting that the writer sees.

use serde_json::Value;

use super::lex::{self, Token};
use super::shape::number_value;
use super::{ExprError, MAX_DEPTH};
use crate::closed::closed;

/// A node of the syntax and the byte at which it begins.
#[derive(Debug)]
pub(super) struct Syntax {
    pub(super) offset: usize,
    pub(super) form: Form,
}

#[derive(Debug)]
pub(super) enum Form {
    Literal(Value),
    Path(String),
    List(Vec<Syntax>),
    Not(Box<Syntax>),
    And(Vec<Syntax>),
    Or(Vec<Syntax>),
    Compare { operator: Operator, left: Box<Syntax>, right: Box<Syntax> },
    Sum { first: Box<Syntax>, rest: Vec<(Sign, Syntax)> },
    Call { function: String, arguments: Vec<Syntax> },
}

closed! {
    pub(super) enum Operator {
        Equal = "==",
        NotEqual = "!=",
        Less = "<",
        LessOrEqual = "<=",
        Greater = ">",
        GreaterOrEqual = ">=",
        In = "in",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

type Parsed = Result<Syntax, ExprError>;

/// Words that are not names.
const KEYWORDS: [&str; 7] = ["or", "and", "not", "in", "true", "false", "null"];

pub(super) fn parse(text: &str) -> Parsed {
    let tokens = lex::tokens(text)?;
    let mut parser = Parser { tokens: &tokens, end: text.len(), next: 0, depth: 0 };
    let syntax = parser.disjunction()?;
    match parser.peek() {
        None => Ok(syntax),
        Some(token) => Err(parser.refuse_rest(token)),
    }
}

struct Parser<'a> {
    tokens: &'a [(usize, Token)],
    /// The length of the text, which is the position of anything missing at its end.
    end: usize,
    next: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn disjunction(&mut self) -> Parsed {
        self.chain("or", Self::conjunction, Form::Or)
    }

    fn conjunction(&mut self) -> Parsed {
        self.chain("and", Self::negation, Form::And)
    }

    fn chain(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Parsed,
        form: fn(Vec<Syntax>) -> Form,
    ) -> Parsed {
        let first = part(self)?;
        if !self.at_word(word) {
            return Ok(first);
        }
        let offset = first.offset;
        let mut parts = vec![first];
        while self.take_word(word) {
            parts.push(part(self)?);
        }
        Ok(Syntax { offset, form: form(parts) })
    }

    fn negation(&mut self) -> Parsed {
        let offset = self.offset();
        if !self.take_word("not") {
            return self.comparison();
        }
        let inner = self.nested(Self::negation)?;
        Ok(Syntax { offset, form: Form::Not(Box::new(inner)) })
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.sum()?;
        let Some(operator) = self.take_operator() else {
            return Ok(left);
        };
        let right = self.sum()?;
        let offset = self.offset();
        if self.take_operator().is_some() {
            let message = "comparisons do not chain; join two of them with `and`";
            return Err(ExprError::new(offset, message));
        }
        let offset = left.offset;
        let form = Form::Compare { operator, left: Box::new(left), right: Box::new(right) };
        Ok(Syntax { offset, form })
    }

    fn sum(&mut self) -> Parsed {
        let first = self.value()?;
        let mut rest = Vec::new();
        while let Some(sign) = self.take_sign() {
            rest.push((sign, self.value()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Syntax { offset: first.offset, form: Form::Sum { first: Box::new(first), rest } })
    }

    fn value(&mut self) -> Parsed {
        let offset = self.offset();
        let Some(token) = self.peek() else {
            return self.refuse("a value is missing at the end");
        };
        let form = match token {
            Token::Text(text) => self.literal(Value::String(text.clone())),
            Token::Number(number) => self.literal(number_value(*number)),
            Token::Word(word) => self.word(word)?,
            Token::Symbol("(") => return self.parenthesised(),
            Token::Symbol("[") => {
                self.next += 1;
                Form::List(self.items("]")?)
            }
            Token::Symbol("-") => self.negative_number()?,
            Token::Symbol(other) => {
                return self.refuse(format!("a value is missing before `{other}`"));
            }
        };
        Ok(Syntax { offset, form })
    }

    fn literal(&mut self, value: Value) -> Form {
        self.next += 1;
        Form::Literal(value)
    }

    fn word(&mut self, word: &str) -> Result<Form, ExprError> {
        match word {
            "true" => return Ok(self.literal(Value::Bool(true))),
            "false" => return Ok(self.literal(Value::Bool(false))),
            "null" => return Ok(self.literal(Value::Null)),
            "not" => return self.refuse("put what follows `not` in parentheses: `x == (not y)`"),
            keyword if KEYWORDS.contains(&keyword) => {
                return self.refuse(format!("a value is missing before `{keyword}`"));
            }
            _name => self.next += 1,
        }
        if self.take_symbol("(") {
            let arguments = self.items(")")?;
            return Ok(Form::Call { function: word.to_owned(), arguments });
        }
        Ok(Form::Path(word.to_owned()))
    }

    fn parenthesised(&mut self) -> Parsed {
        let offset = self.offset();
        self.next += 1;
        let inner = self.nested(Self::disjunction)?;
        if !self.take_symbol(")") {
            return self.refuse("`)` is missing here");
        }
        Ok(Syntax { offset, form: inner.form })
    }

    /// The items of a list or a call, up to and with its closing symbol.
    fn items(&mut self, close: &str) -> Result<Vec<Syntax>, ExprError> {
        let mut items = Vec::new();
        while !self.take_symbol(close) {
            if !items.is_empty() && !self.take_symbol(",") {
                return self.refuse(format!("`,` or `{close}` is missing here"));
            }
            items.push(self.nested(Self::disjunction)?);
        }
        Ok(items)
    }

    fn negative_number(&mut self) -> Result<Form, ExprError> {
        let offset = self.offset();
        self.next += 1;
        if let Some(Token::Number(number)) = self.peek() {
            return Ok(self.literal(number_value(-number)));
        }
        let message = "use a minus only between two numbers or before a literal one; write `0 - x`";
        Err(ExprError::new(offset, message))
    }

    fn nested(&mut self, part: fn(&mut Self) -> Parsed) -> Parsed {
        if self.depth == MAX_DEPTH {
            return self.refuse(format!(
                "an expression nests at most {MAX_DEPTH} deep; split it into several requirements"
            ));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    /// Refuses the next token.
    fn refuse<T>(&self, message: impl Into<String>) -> Result<T, ExprError> {
        Err(ExprError::new(self.offset(), message))
    }

    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(offset, _)| *offset)
    }

    fn at_word(&self, wanted: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(word)) if word == wanted)
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let found = self.at_word(wanted);
        self.next += usize::from(found);
        found
    }

    fn take_symbol(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(symbol)) if *symbol == wanted);
        self.next += usize::from(found);
        found
    }

    fn take_sign(&mut self) -> Option<Sign> {
        if self.take_symbol("+") {
            return Some(Sign::Plus);
        }
        self.take_symbol("-").then_some(Sign::Minus)
    }

    fn take_operator(&mut self) -> Option<Operator> {
        let operator = match self.peek()? {
            Token::Word(word) => word.parse().ok()?,
            Token::Symbol(symbol) => symbol.parse().ok()?,
            Token::Text(_) | Token::Number(_) => return None,
        };
        self.next += 1;
        Some(operator)
    }

    fn refuse_rest(&self, token: &Token) -> ExprError {
        let message = match token {
            Token::Word(word) if word == "not" => {
                "an operator is missing before `not`; for `x not in y` write `not x in y`"
                    .to_owned()
            }
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                lower @ ("and" | "or" | "in") => format!("write `{lower}` in small letters"),
                _other => format!("an operator is missing before `{word}`"),
            },
            Token::Text(_) => "an operator is missing before this text".to_owned(),
            Token::Number(_) => "an operator is missing before this number".to_owned(),
            Token::Symbol(close @ (")" | "]")) => format!("this `{close}` closes nothing"),
            Token::Symbol(symbol) => format!("`{symbol}` does not fit here"),
        };
        ExprError::new(self.offset(), message)
    }
}
