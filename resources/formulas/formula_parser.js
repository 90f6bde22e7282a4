// Has KaTeX parse formulas. The value of this program is a function of a formula in LaTeX that returns KaTeX's tree as JSON, or "" for what KaTeX refuses.
//
// Redline shows which token each symbol came from, so every node has `at`, a place in the formula. KaTeX keeps the places of
// symbols and groups only. Here commands get those of their tokens, too, and what a macro stands for gets that of the macro;
// what is in its arguments keeps its own. `end` is the place of the \right or \end that closes a node. A command that is not
// known is {type: "unknown"}. Commands of symbols are replaced by their characters.
//
// katex.js and mhchem.js are dist/katex.min.js and dist/contrib/mhchem.min.js of npm's katex 0.19.1, which node and browsers
// run, too. `python -m tests.formulas KATEX FILE` compares what becomes of the tree with KaTeX's own MathML.

(function () {
    const LONGEST_EXPANSION = 4000; // tokens that macros of a formula may come to: 0.1 s
    const MACROS = {
        "\\label": {tokens: [], numArgs: 1},
        "\\sideset": "{{}#1}{#3{}#2}",
        "\\plim": "\\operatorname*{plim}",
    };
    const CHEMISTRY = ["\\ce", "\\pu"];
    let source = "", closed = null, infix = null, expanded = 0;

    // A command whose handler is given a parser, by which its class is known.
    katex.__defineFunction({
        type: "internal", names: ["\\@patch"], numArgs: 0,
        handler({parser}) {
            patchParser(Object.getPrototypeOf(parser));
            patchExpander(Object.getPrototypeOf(parser.gullet));
            return {type: "internal", mode: parser.mode};
        },
    });

    function patchParser(parser) {
        const callFunction = parser.callFunction, formatUnsupported = parser.formatUnsupportedCmd;
        parser.callFunction = function (name, args, optional, token, ...rest) {
            const made = callFunction.call(this, name, args, optional, token, ...rest);
            const loc = token ? token.loc : infix;
            if (made.type === "infix") infix = loc;
            if (name === "\\end" || name === "\\right") closed = loc;
            if (name === "\\begin" || name === "\\left") made.end = place(closed);
            made.loc = made.loc || loc;
            return made;
        };
        parser.formatUnsupportedCmd = function (text) {
            const token = this.nextToken, here = token && token.text === text ? token.loc : null;
            return {type: "unknown", mode: this.mode, text, loc: here};
        };
    }

    function patchExpander(expander) {
        const expandOnce = expander.expandOnce;
        expander.expandOnce = function (...rest) {
            const command = this.future();
            const count = expandOnce.apply(this, rest);
            if (count === false) return false;
            expanded += count;
            if (expanded > LONGEST_EXPANSION) throw new Error("too large");
            relocate(this.stack, this.stack.length - count, command);
            return count;
        };
    }

    // Gives the tokens that came from a macro's text the place of the macro. The stack holds them from the last to the first.
    function relocate(stack, first, command) {
        let loc = command.loc;
        for (let i = stack.length - 1; i >= first; i--) {
            const token = stack[i];
            if (token.loc && token.loc.lexer.input === source) continue;
            if (CHEMISTRY.includes(command.text) && /^[A-Za-z0-9]$/.test(token.text)) loc = found(token.text, loc) || loc;
            stack[i] = Object.assign(Object.create(Object.getPrototypeOf(token)), token, {loc});
        }
    }

    // Returns the place of the next such character, since chemistry keeps the order of its letters and digits.
    function found(text, loc) {
        const start = source.indexOf(text, loc.end);
        return start < 0 ? null : {lexer: loc.lexer, start, end: start + 1};
    }

    function place(loc) {
        return loc && loc.lexer.input === source ? loc.start : -1;
    }

    // Returns the character of a command, as KaTeX writes it in MathML.
    const characters = new Map();
    function character(text, mode) {
        if (!/^[\\!-/:-@[-`{-~]/.test(text)) return text;
        const key = mode + text;
        if (!characters.has(key)) {
            let shown = text;
            expanded = 0;
            try {
                const latex = mode === "text" ? `\\text{${text}}` : text;
                const tree = katex.__renderToDomTree(latex, {output: "mathml", strict: "ignore"});
                shown = tree.children[0].children[0].children[0].children.map(child => child.toText()).join("");
            } catch (error) {
                // a character that is no command, such as that of \char
            }
            characters.set(key, shown || text);
        }
        return characters.get(key);
    }

    const SYMBOLS = ["textord", "mathord", "atom"];
    const DELIMITERS = ["left", "right", "delim", "leftDelim", "rightDelim"];

    function plain(key, value) {
        if (key === "loc" || key === "html" || key === "token") return undefined;
        if (DELIMITERS.includes(key) && value) return character(value, "math");
        if (value && value.type) {
            value.at = place(value.loc);
            if (SYMBOLS.includes(value.type)) value.text = character(value.text, value.mode);
            if (value.type === "op" && value.symbol) value.name = character(value.name, value.mode);
        }
        return value;
    }

    katex.__parse("\\@patch", {});
    return function (latex) {
        source = latex;
        closed = infix = null;
        expanded = 0;
        const macros = Object.assign({}, MACROS);
        try {
            // As a display, which alone may have tags and alignments. "trust" allows \href and \htmlClass, of which only the body
            // is shown.
            const tree = katex.__parse(latex, {displayMode: true, throwOnError: false, strict: "ignore", trust: true, macros});
            return JSON.stringify(tree, plain);
        } catch (error) {
            return "";
        }
    };
})();
