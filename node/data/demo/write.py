#!/usr/bin/env python3
"""Writes the runs that `folklore demo` imports, in the shapes of real trajectory files.

Everything here is made up: the shop, the two small code bases, the people. Run it in this folder after a change; the
JSON files beside it are what is shipped and what the tests read.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent


# --- the shop: tau-bench result shape -------------------------------------------------------------------------------

SHOP = []


def shop(task, instruction, expected, attempts, missing=None):
    """One task. `expected`: [(tool, arguments)]. `attempts`: [(reward, [turn])], a turn being ('user', text),
    ('say', text) or ('call', tool, arguments, result)."""
    for trial, (reward, turns) in enumerate(attempts):
        traj = [{"role": "system", "content": "# Web shop back office\n\nHelp customers with their orders. Look a record up before you change it."}]
        for turn in turns:
            if turn[0] == "user":
                traj.append({"role": "user", "content": turn[1]})
            elif turn[0] == "say":
                traj.append({"role": "assistant", "content": turn[1]})
            else:
                _, tool, arguments, result = turn
                call = f"call_{len(traj)}"
                traj.append({"role": "assistant", "content": None, "tool_calls": [
                    {"id": call, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}]})
                text = result if isinstance(result, str) else json.dumps(result)
                traj.append({"role": "tool", "tool_call_id": call, "name": tool, "content": text})
        actions = [{"name": name, "kwargs": kwargs} for name, kwargs in expected]
        info = {"r_actions": reward}
        if missing and reward == 0.0:
            info = {"r_outputs": reward, "outputs": {text: False for text in missing}}
        SHOP.append({
            "task_id": task, "reward": reward, "trial": trial,
            "info": {"task": {"user_id": "demo", "actions": actions, "instruction": instruction, "outputs": missing or []},
                     "source": "user", "reward_info": {"reward": reward, "info": info, "actions": actions}},
            "traj": traj,
        })


ORDER = {"order_id": "#D10412", "status": "delivered", "items": ["lamp-220"], "payments": [
    {"payment_id": "giftcard_551", "amount": 40.0}, {"payment_id": "card_8830", "amount": 22.5}]}
shop(
    "demo-refund-split",
    "You are Noor Haddad. Your lamp arrived broken and you want the whole price back. You paid partly with a gift card and "
    "partly with your credit card, and each part has to go back to where it came from.",
    [("refund_payment", {"order_id": "#D10412", "payment_id": "giftcard_551", "amount": 40.0}),
     ("refund_payment", {"order_id": "#D10412", "payment_id": "card_8830", "amount": 22.5})],
    [
        (0.0, [
            ("user", "My lamp from order #D10412 came broken, I want my money back."),
            ("call", "get_order", {"order_id": "#D10412"}, ORDER),
            ("say", "I am sorry about the lamp. Shall I refund the 62.50 now?"),
            ("user", "Yes, the way I paid, please."),
            ("call", "refund_payment", {"order_id": "#D10412", "payment_id": "card_8830", "amount": 62.5}, {"order_id": "#D10412", "refunded": 62.5}),
            ("say", "The total of 62.50 has been refunded to your credit card."),
            ("user", "But most of that was a gift card."),
        ]),
        (1.0, [
            ("user", "The lamp in order #D10412 is in pieces. I need a refund."),
            ("call", "get_order", {"order_id": "#D10412"}, ORDER),
            ("say", "You paid 40.00 with a gift card and 22.50 by card. Shall I send each part back to where it came from?"),
            ("user", "Yes, I want each part to go back to its own source."),
            ("call", "refund_payment", {"order_id": "#D10412", "payment_id": "giftcard_551", "amount": 40.0}, {"refunded": 40.0}),
            ("call", "refund_payment", {"order_id": "#D10412", "payment_id": "card_8830", "amount": 22.5}, {"refunded": 22.5}),
            ("say", "40.00 has been refunded to the gift card and 22.50 to the card."),
            ("user", "Perfect."),
        ]),
    ],
)

SHIPPED = {"order_id": "#D20977", "status": "shipped", "carrier": "northpost", "parcel_id": "NP5501", "address_id": "addr_old"}
shop(
    "demo-address-shipped",
    "You are Ivo Lindqvist. You moved house and your order is already with the carrier. You want the parcel to reach the "
    "new address, which is in your profile.",
    [("redirect_parcel", {"parcel_id": "NP5501", "address_id": "addr_new"})],
    [
        (0.0, [
            ("user", "I moved, can you send order #D20977 to my new address?"),
            ("call", "get_order", {"order_id": "#D20977"}, SHIPPED),
            ("call", "change_order_address", {"order_id": "#D20977", "address_id": "addr_new"}, "Error: a shipped order cannot be changed"),
            ("say", "Unfortunately the order has shipped, so its address cannot be changed any more."),
            ("user", "So it goes to my old flat? That is useless."),
        ]),
        (1.0, [
            ("user", "Order #D20977 is on its way to a flat I have left. I need it at my new address."),
            ("call", "get_order", {"order_id": "#D20977"}, SHIPPED),
            ("call", "get_customer", {"customer_id": "ivo_lindqvist"}, {"customer_id": "ivo_lindqvist", "addresses": ["addr_old", "addr_new"]}),
            ("call", "redirect_parcel", {"parcel_id": "NP5501", "address_id": "addr_new"}, {"parcel_id": "NP5501", "status": "redirected"}),
            ("say", "The carrier has been told: parcel NP5501 goes to your new address."),
            ("user", "Great."),
        ]),
    ],
)

VARIANTS = {"product": "rain jacket", "variants": [
    {"variant_id": "rj-m-blue", "size": "M", "in_stock": False}, {"variant_id": "rj-m-navy", "size": "M", "in_stock": True}]}
shop(
    "demo-exchange-size",
    "You are Petra Novak. Your rain jacket is too small and you want size M. You would like blue, but any dark colour that is "
    "in stock will do.",
    [("exchange_item", {"order_id": "#D31118", "item_id": "rj-s-blue", "new_item_id": "rj-m-navy"})],
    [
        (0.0, [
            ("user", "I need the jacket of order #D31118 in M instead of S."),
            ("call", "get_order", {"order_id": "#D31118"}, {"order_id": "#D31118", "status": "delivered", "items": ["rj-s-blue"]}),
            ("call", "exchange_item", {"order_id": "#D31118", "item_id": "rj-s-blue", "new_item_id": "rj-m-blue"}, {"order_id": "#D31118", "status": "exchange requested"}),
            ("say", "The exchange for a blue jacket in size M has been requested."),
            ("user", "Thanks, when does it come?"),
            ("call", "get_product", {"product": "rain jacket"}, VARIANTS),
            ("say", "I am afraid blue in M is out of stock; we do not have a date."),
            ("user", "Then why did you order it?"),
        ]),
        (1.0, [
            ("user", "My jacket from order #D31118 is too small. I prefer blue, but I need it in M."),
            ("call", "get_order", {"order_id": "#D31118"}, {"order_id": "#D31118", "status": "delivered", "items": ["rj-s-blue"]}),
            ("call", "get_product", {"product": "rain jacket"}, VARIANTS),
            ("say", "Blue is out of stock in M, navy is in stock. Would you like navy?"),
            ("user", "Any dark colour is fine if I only get it soon."),
            ("call", "exchange_item", {"order_id": "#D31118", "item_id": "rj-s-blue", "new_item_id": "rj-m-navy"}, {"order_id": "#D31118", "status": "exchange requested"}),
            ("say", "The exchange for navy in size M has been requested."),
            ("user", "Good."),
        ]),
    ],
)

VOUCHERS = {"customer_id": "sami_oke", "tier": "gold", "vouchers": [
    {"voucher_id": "SPRING5", "value": 5.0, "expires": "2031-03-01"}, {"voucher_id": "LOYAL15", "value": 15.0, "expires": "2031-09-01"}]}
shop(
    "demo-voucher-choice",
    "You are Sami Oke. You have two vouchers and only one may be used on an order. You want the one that takes most off "
    "your open order.",
    [("apply_voucher", {"order_id": "#D40230", "voucher_id": "LOYAL15"})],
    [
        (0.0, [
            ("user", "Put a voucher on order #D40230, the better one."),
            ("call", "get_order", {"order_id": "#D40230"}, {"order_id": "#D40230", "status": "pending", "total": 80.0}),
            ("call", "apply_voucher", {"order_id": "#D40230", "voucher_id": "SPRING5"}, {"order_id": "#D40230", "total": 75.0}),
            ("say", "The voucher SPRING5 has been applied, the total is now 75.00."),
            ("user", "I had one for fifteen."),
        ]),
        (1.0, [
            ("user", "I want the voucher that saves most on order #D40230."),
            ("call", "get_order", {"order_id": "#D40230"}, {"order_id": "#D40230", "status": "pending", "total": 80.0}),
            ("call", "list_vouchers", {"customer_id": "sami_oke"}, VOUCHERS),
            ("call", "apply_voucher", {"order_id": "#D40230", "voucher_id": "LOYAL15"}, {"order_id": "#D40230", "total": 65.0}),
            ("say", "LOYAL15 has been applied, the total is now 65.00."),
            ("user", "Thank you."),
        ]),
    ],
)

CHARGES = {"order_id": "#D50661", "status": "processing", "charges": [
    {"charge_id": "ch_1001", "amount": 59.0}, {"charge_id": "ch_1002", "amount": 59.0}]}
shop(
    "demo-double-charge",
    "You are Lena Brandt. Your bank shows the same order charged twice within a minute. You still want the order, you want the "
    "second charge back.",
    [("refund_charge", {"charge_id": "ch_1002"})],
    [
        (0.0, [
            ("user", "You charged me twice for order #D50661!"),
            ("call", "get_order", {"order_id": "#D50661"}, {"order_id": "#D50661", "status": "processing", "total": 59.0}),
            ("say", "I see one order of 59.00. Should I cancel it so that you get your money back?"),
            ("user", "I need the money back, do what you have to."),
            ("call", "cancel_order", {"order_id": "#D50661"}, {"order_id": "#D50661", "status": "cancelled"}),
            ("say", "Order #D50661 has been cancelled and will be refunded."),
            ("user", "But I wanted the order!"),
        ]),
        (1.0, [
            ("user", "My card shows order #D50661 twice. I only want to pay once, and I need the goods."),
            ("call", "list_charges", {"order_id": "#D50661"}, CHARGES),
            ("call", "refund_charge", {"charge_id": "ch_1002"}, {"charge_id": "ch_1002", "status": "refunded"}),
            ("say", "The second charge of 59.00 has been refunded; the order stays as it is."),
            ("user", "That is what I wanted."),
        ]),
    ],
)

OLD = {"order_id": "#D60345", "status": "delivered", "delivered_days_ago": 71, "return_window": "closed"}
shop(
    "demo-return-late",
    "You are Marek Wolny. You want to send back headphones you got more than two months ago because you changed your mind. You "
    "push, but you accept a clear no.",
    [],
    [
        (0.0, [
            ("user", "I want to return the headphones of order #D60345, I do not use them."),
            ("call", "get_order", {"order_id": "#D60345"}, OLD),
            ("say", "They arrived 71 days ago. Do you want me to open a return anyway?"),
            ("user", "Yes, please, I need the money."),
            ("call", "create_return", {"order_id": "#D60345", "reason": "changed mind"}, {"order_id": "#D60345", "status": "return requested"}),
            ("say", "The return has been created, a label is on its way."),
            ("user", "Thanks."),
        ]),
        (1.0, [
            ("user", "I would like to give back the headphones from order #D60345."),
            ("call", "get_order", {"order_id": "#D60345"}, OLD),
            ("say", "Unfortunately the return window of 30 days is closed, so a return is not possible."),
            ("user", "Not even for a loyal customer?"),
            ("say", "No, the 30 days cannot be extended. If they break within two years, the warranty applies."),
            ("user", "All right."),
        ]),
    ],
)

BASKET = {"order_id": "#D70818", "status": "pending", "items": [
    {"item_id": "mug-4", "price": 9.0}, {"item_id": "kettle-2", "price": 48.0}]}
shop(
    "demo-cancel-part",
    "You are Aiko Sato. Your order holds a mug and a kettle. You no longer want the kettle but keep the mug.",
    [("cancel_item", {"order_id": "#D70818", "item_id": "kettle-2"})],
    [
        (0.0, [
            ("user", "Please cancel the kettle in #D70818."),
            ("call", "get_order", {"order_id": "#D70818"}, BASKET),
            ("call", "cancel_order", {"order_id": "#D70818", "reason": "no longer needed"}, {"order_id": "#D70818", "status": "cancelled"}),
            ("say", "Order #D70818 has been cancelled."),
            ("user", "The mug too? I wanted to keep that."),
        ]),
        (1.0, [
            ("user", "I only want the mug from order #D70818, drop the kettle."),
            ("call", "get_order", {"order_id": "#D70818"}, BASKET),
            ("call", "cancel_item", {"order_id": "#D70818", "item_id": "kettle-2"}, {"order_id": "#D70818", "status": "pending", "items": ["mug-4"]}),
            ("say", "The kettle has been cancelled, the mug still ships."),
            ("user", "Thanks."),
        ]),
    ],
)

LATE = {"order_id": "#D81552", "status": "delayed", "promised": "2031-02-01", "preorder": True}
shop(
    "demo-preorder-late",
    "You are Tomas Reyes. The game you ordered in advance is three weeks late. You want to keep the order and get something for "
    "the wait.",
    [("issue_voucher", {"customer_id": "tomas_reyes", "amount": 10.0, "reason": "late preorder"})],
    [
        (0.0, [
            ("user", "My preorder #D81552 is three weeks late. What do I get for that?"),
            ("call", "get_order", {"order_id": "#D81552"}, LATE),
            ("call", "transfer_to_human_agents", {"summary": "customer asks for compensation of a late preorder"}, "Transfer successful"),
            ("say", "I have passed you on to a colleague."),
            ("user", "Now I wait again."),
        ]),
        (1.0, [
            ("user", "I want to keep preorder #D81552 but it is weeks late, and I need some compensation."),
            ("call", "get_order", {"order_id": "#D81552"}, LATE),
            ("call", "get_compensation_rule", {"case": "late preorder"}, {"case": "late preorder", "rule": "voucher", "amount": 10.0}),
            ("call", "issue_voucher", {"customer_id": "tomas_reyes", "amount": 10.0, "reason": "late preorder"}, {"voucher_id": "WAIT10"}),
            ("say", "A voucher of 10.00 has been issued for the wait; your order is kept."),
            ("user", "Fair enough."),
        ]),
    ],
)

shop(
    "demo-company-invoice",
    "You are Greta Falk. You bought a desk for your company and need an invoice with the VAT number on it. You also want to know "
    "the net amount.",
    [("reissue_invoice", {"order_id": "#D90077", "vat_number": "XX99887766"})],
    [
        (0.0, [
            ("user", "I need the invoice of order #D90077 with our VAT number XX99887766, and tell me what is the net amount."),
            ("call", "get_order", {"order_id": "#D90077"}, {"order_id": "#D90077", "status": "delivered", "total": 238.0, "tax_rate": 0.19}),
            ("call", "reissue_invoice", {"order_id": "#D90077", "vat_number": "XX99887766"}, {"order_id": "#D90077", "invoice": "reissued"}),
            ("say", "The invoice over a total of 238.00 has been reissued with your VAT number."),
            ("user", "And the net?"),
            ("say", "The total is 238.00, tax included."),
            ("user", "Never mind."),
        ]),
    ],
    missing=["200.00"],
)

shop(
    "demo-stock-alert",
    "You are Dario Conti. You want to be told when the red bicycle bell is back in stock; you do not want to order anything.",
    [("create_stock_alert", {"product_id": "bell-red", "customer_id": "dario_conti"})],
    [
        (1.0, [
            ("user", "Is the red bicycle bell back? If not, I want to hear when it is."),
            ("call", "get_product", {"product": "bicycle bell"}, {"product_id": "bell-red", "status": "sold out"}),
            ("say", "It is sold out. Shall I set up an alert?"),
            ("user", "Yes, I only need a message, no order."),
            ("call", "create_stock_alert", {"product_id": "bell-red", "customer_id": "dario_conti"}, {"alert": "created"}),
            ("say", "You will get a message as soon as the red bell has arrived."),
            ("user", "Good."),
        ]),
    ],
)

shop(
    "demo-gift-note",
    "You are Hana Kim. Your order is a birthday present. You want a note in the parcel and no prices on the delivery slip.",
    [("set_gift_options", {"order_id": "#D11903", "note": "Happy birthday, Jun", "hide_prices": True})],
    [
        (1.0, [
            ("user", "Order #D11903 is a present: add a note 'Happy birthday, Jun' and hide the prices."),
            ("call", "get_order", {"order_id": "#D11903"}, {"order_id": "#D11903", "status": "pending", "gift": False}),
            ("call", "set_gift_options", {"order_id": "#D11903", "note": "Happy birthday, Jun"}, "Error: hide_prices must be given for a gift"),
            ("call", "set_gift_options", {"order_id": "#D11903", "note": "Happy birthday, Jun", "hide_prices": True}, {"order_id": "#D11903", "gift": True}),
            ("say", "The note has been added and the slip shows no prices."),
            ("user", "Lovely."),
        ]),
    ],
)

shop(
    "demo-pause-subscription",
    "You are Oskar Vik. You are away for two months and want your coffee subscription to stop for that time, not to end.",
    [("pause_subscription", {"subscription_id": "sub_coffee_77", "months": 2})],
    [
        (0.0, [
            ("user", "I am travelling for two months and need my coffee deliveries to stop until I am back."),
            ("call", "get_subscription", {"subscription_id": "sub_coffee_77"}, {"subscription_id": "sub_coffee_77", "status": "active", "interval": "monthly"}),
            ("call", "pause_subscription", {"subscription_id": "sub_coffee_77", "months": 12}, "Error: months must be at most 3"),
            ("call", "end_subscription", {"subscription_id": "sub_coffee_77"}, {"subscription_id": "sub_coffee_77", "status": "ended"}),
            ("say", "Your subscription has been ended, so nothing is delivered while you are away."),
            ("user", "I wanted it back in two months."),
        ]),
    ],
)


# --- two small code bases: mini-swe-agent shape ---------------------------------------------------------------------

OUTCOMES = []
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"


def patch(path, old, new, context=""):
    lines = [f"diff --git a/{path} b/{path}", f"--- a/{path}", f"+++ b/{path}", f"@@ -1,3 +1,3 @@ {context}".rstrip()]
    return "\n".join(lines + [f"-{line}" for line in old] + [f"+{line}" for line in new])


def coding(instance, issue, agent, resolved, steps, diff, reason=None):
    """One run: `steps` are (thought, command, output) or (thought, command, output, return code)."""
    prompt = f"<pr_description>\nConsider the following PR description:\n{issue}\n</pr_description>\n\n<instructions>Fix it.</instructions>"
    messages = [{"role": "system", "content": "You work in a shell."}, {"role": "user", "content": prompt}]
    for thought, command, output, *code in steps:
        messages.append({"role": "assistant", "content": f"THOUGHT: {thought}\n\n```bash\n{command}\n```"})
        returned = code[0] if code else 0
        messages.append({"role": "user", "content": f"<returncode>{returned}</returncode>\n<output>\n{output}\n</output>"})
    messages.append({"role": "assistant", "content": f"THOUGHT: Done.\n\n```bash\n{SUBMIT}\n```"})
    messages.append({"role": "user", "content": diff})
    document = {
        "info": {"exit_status": "Submitted", "submission": diff, "config": {"model": {"model_name": agent}}},
        "messages": messages, "trajectory_format": "mini-swe-agent-1", "instance_id": instance,
    }
    name = f"{instance}.{agent}.traj.json"
    (HERE / "coding" / name).write_text(json.dumps(document, indent=1) + "\n")
    row = {"instance_id": instance, "model": agent, "resolved": resolved}
    if reason:
        row["reason"] = reason
    OUTCOMES.append(row)


SMALL, LARGE = "scout-small", "scout-large"

issue = "A parcel of exactly 20 kg is billed in the wrong band\n\nCustomers with a parcel of 20 kg pay the price of the next band, both for standard and for express delivery. The price list says up to and including 20 kg."
coding("acme__parcel-11", issue, SMALL, False, [
    ("Where are the bands?", "grep -rn \"20\" parcel/", "parcel/rates.py:14:    if weight < 20:\nparcel/express.py:9:    if weight < 20:"),
    ("Standard rates first.", "sed -n '8,20p' parcel/rates.py", "def standard(weight):\n    if weight < 20:\n        return 9.90\n    return 14.90"),
    ("Make it inclusive.", "sed -i 's/if weight < 20:/if weight <= 20:/' parcel/rates.py", ""),
    ("Check.", "python -m unittest tests.test_rates", "Ran 4 tests in 0.010s\n\nOK"),
], patch("parcel/rates.py", ["    if weight < 20:"], ["    if weight <= 20:"], "def standard(weight):"),
    reason="test_express_20kg failed: express(20) was 24.90, expected 17.90; the same limit is in parcel/express.py")
coding("acme__parcel-11", issue, LARGE, True, [
    ("Find every place with the limit.", "grep -rn \"weight < \" parcel/", "parcel/rates.py:14:    if weight < 20:\nparcel/express.py:9:    if weight < 20:"),
    ("Two copies of one rule: both must change.", "sed -i 's/if weight < 20:/if weight <= 20:/' parcel/rates.py parcel/express.py", ""),
    ("Run all tests, not only those of one file.", "python -m unittest discover tests", "Ran 19 tests in 0.042s\n\nOK"),
], patch("parcel/rates.py", ["    if weight < 20:"], ["    if weight <= 20:"], "def standard(weight):") + "\n"
    + patch("parcel/express.py", ["    if weight < 20:"], ["    if weight <= 20:"], "def express(weight):"))

issue = "Tracking codes typed in lower case are refused\n\nPeople copy tracking codes from e-mails in lower case. parse_code() says the check digit is wrong although the code is right."
coding("acme__parcel-17", issue, SMALL, False, [
    ("Look at the parser.", "cat parcel/tracking.py", "def parse_code(code):\n    digit = check_digit(code)\n    if code[-1] != digit:\n        raise ValueError('check digit')\n    return code.upper()"),
    ("The comparison is case sensitive.", "sed -i 's/if code\\[-1\\] != digit:/if code[-1].upper() != digit:/' parcel/tracking.py", ""),
    ("Try it.", "python -c \"from parcel.tracking import parse_code; print(parse_code('np5501x'))\"", "ValueError: check digit", 1),
    ("Perhaps this code is simply wrong. Should I compute check_digit on the upper-case code instead? I leave it.", "python -m unittest tests.test_tracking", "Ran 3 tests in 0.004s\n\nOK"),
], patch("parcel/tracking.py", ["    if code[-1] != digit:"], ["    if code[-1].upper() != digit:"], "def parse_code(code):"),
    reason="test_lower_case failed: ValueError: check digit; check_digit() still sees lower-case letters")
coding("acme__parcel-17", issue, LARGE, True, [
    ("Look at the parser.", "cat parcel/tracking.py", "def parse_code(code):\n    digit = check_digit(code)\n    if code[-1] != digit:\n        raise ValueError('check digit')\n    return code.upper()"),
    ("Show it first.", "python -c \"from parcel.tracking import parse_code; print(parse_code('np5501x'))\"", "ValueError: check digit", 1),
    ("Normalise before anything is computed from the code.", "sed -i 's/digit = check_digit(code)/code = code.strip().upper()\\n    digit = check_digit(code)/' parcel/tracking.py", ""),
    ("Again.", "python -c \"from parcel.tracking import parse_code; print(parse_code('np5501x'))\"", "NP5501X"),
    ("Tests.", "python -m unittest tests.test_tracking", "Ran 3 tests in 0.004s\n\nOK"),
], patch("parcel/tracking.py", ["    digit = check_digit(code)"], ["    code = code.strip().upper()", "    digit = check_digit(code)"], "def parse_code(code):"))

issue = "The client hammers the carrier when it is told to slow down\n\nWhen the carrier's API answers 429, fetch_labels() retries at once and gets blocked for an hour. It has to wait as long as the answer says."
coding("acme__parcel-23", issue, SMALL, False, [
    ("Find the loop.", "grep -n \"429\" -r parcel/", "parcel/client.py:31:        if answer.status == 429:"),
    ("See it.", "sed -n '25,40p' parcel/client.py", "    for attempt in range(5):\n        answer = self.get(path)\n        if answer.status == 429:\n            continue\n        return answer.body"),
    ("Sleep a second between attempts.", "sed -i 's/            continue/            time.sleep(1); continue/' parcel/client.py", ""),
], patch("parcel/client.py", ["            continue"], ["            time.sleep(1); continue"], "def fetch_labels(self):"),
    reason="test_waits_as_told failed: slept 1 s where Retry-After said 30; NameError: name 'time' is not defined")
coding("acme__parcel-23", issue, LARGE, True, [
    ("Find the loop.", "grep -n \"429\" -r parcel/", "parcel/client.py:31:        if answer.status == 429:"),
    ("What does the answer carry?", "grep -n \"headers\" parcel/client.py", "parcel/client.py:12:        self.headers = dict(raw.headers)"),
    ("Wait as long as the header says, at most a minute.", "sed -i 's/            continue/            time.sleep(min(float(answer.headers.get(\"Retry-After\", 5)), 60))\\n            continue/; 1i import time' parcel/client.py", ""),
    ("Test with a faked clock.", "python -m unittest tests.test_client", "Ran 6 tests in 0.020s\n\nOK"),
], patch("parcel/client.py", ["            continue"], ["            time.sleep(min(float(answer.headers.get(\"Retry-After\", 5)), 60))", "            continue"], "def fetch_labels(self):"))

issue = "Invoice and credit note differ by a cent\n\nThe tax on a credit note is sometimes one cent off the invoice it cancels. Both have to round half up, as the tax office wants."
coding("acme__tally-8", issue, SMALL, False, [
    ("Where is tax rounded?", "grep -rn \"round(\" tally/", "tally/credit.py:22:    tax = round(net * rate, 2)\ntally/invoice.py:18:    tax = int(net * rate * 100 + 0.5) / 100"),
    ("Use one way in both.", "sed -i 's/int(net \\* rate \\* 100 + 0.5) \\/ 100/round(net * rate, 2)/' tally/invoice.py", ""),
    ("Test.", "python -m unittest tests.test_credit", "Ran 5 tests in 0.008s\n\nOK"),
], patch("tally/invoice.py", ["    tax = int(net * rate * 100 + 0.5) / 100"], ["    tax = round(net * rate, 2)"], "def tax_of(net, rate):"),
    reason="test_half_up failed: tax of 2.675 was 2.67, expected 2.68; round() on floats rounds half to even and 2.675 is below")
coding("acme__tally-8", issue, LARGE, True, [
    ("Where is tax rounded?", "grep -rn \"round(\" tally/", "tally/credit.py:22:    tax = round(net * rate, 2)\ntally/invoice.py:18:    tax = int(net * rate * 100 + 0.5) / 100"),
    ("Show the difference.", "python -c \"print(round(2.675, 2), int(2.675*100+0.5)/100)\"", "2.67 2.68"),
    ("Floats cannot do this: decimal, half up, in one place.", "cat <<'EOF' > tally/money.py\nfrom decimal import Decimal, ROUND_HALF_UP\n\ndef cents(amount):\n    return Decimal(str(amount)).quantize(Decimal('0.01'), rounding=ROUND_HALF_UP)\nEOF", ""),
    ("Use it in both.", "sed -i 's/tax = .*/tax = cents(net * rate)/' tally/credit.py tally/invoice.py", ""),
    ("Test all.", "python -m unittest discover tests", "Ran 27 tests in 0.051s\n\nOK"),
], patch("tally/money.py", [], ["def cents(amount):", "    return Decimal(str(amount)).quantize(Decimal('0.01'), rounding=ROUND_HALF_UP)"]) + "\n"
    + patch("tally/credit.py", ["    tax = round(net * rate, 2)"], ["    tax = cents(net * rate)"], "def tax_of(net, rate):"))

issue = "Export breaks when a customer's name has a comma\n\nThe CSV export shifts all columns to the right for customers such as 'Falk, Greta'. Names must come back unchanged when the file is read."
coding("acme__tally-15", issue, SMALL, False, [
    ("Find the export.", "grep -rn \"join\" tally/export.py", "tally/export.py:11:    return ','.join(row)"),
    ("Take the commas out of the values.", "sed -i \"s/','.join(row)/','.join(v.replace(',', ' ') for v in row)/\" tally/export.py", ""),
    ("Look.", "python -m tally.export sample.db", "id,name,total\n7,Falk  Greta,238.00"),
], patch("tally/export.py", ["    return ','.join(row)"], ["    return ','.join(v.replace(',', ' ') for v in row)"], "def line(row):"),
    reason="test_names_survive failed: read back 'Falk  Greta', expected 'Falk, Greta'")
coding("acme__tally-15", issue, LARGE, True, [
    ("Find the export.", "grep -rn \"join\" tally/export.py", "tally/export.py:11:    return ','.join(row)"),
    ("The csv module quotes what needs quoting.", "sed -i \"s/    return ','.join(row)/    out = io.StringIO(); csv.writer(out).writerow(row); return out.getvalue().rstrip()/; 1i import csv, io\" tally/export.py", ""),
    ("Read it back.", "python -m unittest tests.test_export", "Ran 4 tests in 0.006s\n\nOK"),
], patch("tally/export.py", ["    return ','.join(row)"], ["    out = io.StringIO(); csv.writer(out).writerow(row); return out.getvalue().rstrip()"], "def line(row):"))

issue = "Two exports at once give the same invoice number\n\nWhen the nightly job and a person export at the same time, next_number() hands out one number twice."
coding("acme__tally-21", issue, SMALL, False, [
    ("Look at it.", "cat tally/numbers.py", "def next_number(path):\n    last = int(open(path).read())\n    open(path, 'w').write(str(last + 1))\n    return last + 1"),
    ("Check again before writing.", "sed -i \"s/    open(path, 'w')/    if int(open(path).read()) != last: return next_number(path)\\n    open(path, 'w')/\" tally/numbers.py", ""),
    ("One process works.", "python -m unittest tests.test_numbers", "Ran 2 tests in 0.003s\n\nOK"),
], patch("tally/numbers.py", [], ["    if int(open(path).read()) != last: return next_number(path)"], "def next_number(path):"),
    reason="test_two_processes failed: 14 of 1000 numbers were given twice; reading again before the write leaves the gap open")
coding("acme__tally-21", issue, LARGE, True, [
    ("Look at it.", "cat tally/numbers.py", "def next_number(path):\n    last = int(open(path).read())\n    open(path, 'w').write(str(last + 1))\n    return last + 1"),
    ("Show it with two processes.", "python tests/hammer_numbers.py", "FAIL: 14 of 1000 numbers given twice", 1),
    ("Hold a lock from the read to the write.", "sed -i \"s/    last = int(open(path).read())/    handle = open(path, 'r+'); fcntl.flock(handle, fcntl.LOCK_EX)\\n    last = int(handle.read())/; 1i import fcntl\" tally/numbers.py", ""),
    ("Again with two processes.", "python tests/hammer_numbers.py", "PASS: 1000 numbers, none twice"),
], patch("tally/numbers.py", ["    last = int(open(path).read())"], ["    handle = open(path, 'r+'); fcntl.flock(handle, fcntl.LOCK_EX)", "    last = int(handle.read())"], "def next_number(path):"))

coding("acme__parcel-31",
    "Delivery windows are shown an hour off in summer\n\nwindow() returns the carrier's UTC times with the local zone's name on them. In summer every window is wrong.",
    SMALL, False, [
        ("Find it.", "grep -n \"tzinfo\" -r parcel/", "parcel/window.py:17:    return start.replace(tzinfo=None)"),
        ("Put the zone on.", "sed -i 's/start.replace(tzinfo=None)/start.replace(tzinfo=ZONE)/' parcel/window.py", ""),
        ("Test.", "python -m unittest tests.test_window", "Ran 2 tests in 0.002s\n\nOK"),
        ("I wonder whether start.replace(tzinfo=ZONE) shifts the clock or only renames it.", "git diff", "-    return start.replace(tzinfo=None)\n+    return start.replace(tzinfo=ZONE)"),
    ], patch("parcel/window.py", ["    return start.replace(tzinfo=None)"], ["    return start.replace(tzinfo=ZONE)"], "def window(start):"),
    reason="test_summer failed: 08:00 UTC was shown as 08:00, expected 10:00; replace() renames the zone, astimezone() converts")

coding("acme__tally-30",
    "A config path with a tilde is not found\n\ntally --config ~/tally.toml works in a shell but not from cron, where the tilde reaches the program.",
    LARGE, True, [
        ("Where is it opened?", "grep -n \"config\" -r tally/cli.py", "tally/cli.py:40:    settings = read(args.config)"),
        ("Show it.", "python -m tally --config '~/tally.toml' show", "FileNotFoundError: [Errno 2] No such file or directory: '~/tally.toml'", 1),
        ("Expand it here.", "sed -i 's/read(args.config)/read(os.path.expanduser(args.config))/' tally/cli.py", ""),
        ("Again.", "python -m tally --config '~/tally.toml' show", "OK: 3 settings"),
    ], patch("tally/cli.py", ["    settings = read(args.config)"], ["    settings = read(os.path.expanduser(args.config))"], "def main(args):"))

coding("acme__parcel-36",
    "Importing ten thousand addresses takes minutes\n\nThe postcode check dominates the profile of import_addresses().",
    LARGE, True, [
        ("Profile it.", "python -m cProfile -s cumtime bench_import.py", "10000 calls to re.compile, 41.2 s\nRan import in 43.0 s"),
        ("Where?", "grep -n \"re.compile\" -r parcel/", "parcel/address.py:22:        pattern = re.compile(POSTCODES[country])"),
        ("Compile once a country.", "sed -i 's/re.compile(POSTCODES\\[country\\])/compiled(country)/' parcel/address.py", ""),
        ("Measure again.", "python bench_import.py", "Ran import in 0.9 s"),
        ("Tests.", "python -m unittest tests.test_address", "Ran 11 tests in 0.012s\n\nOK"),
    ], patch("parcel/address.py", ["        pattern = re.compile(POSTCODES[country])"], ["        pattern = compiled(country)"], "def check(country, code):"))

coding("acme__tally-34",
    "Deleting a customer leaves its invoices behind\n\nAfter delete_customer() the invoices of that customer are still in the database and turn up in reports.",
    SMALL, False, [
        ("Look at the schema.", "grep -n \"customer\" tally/schema.sql", "tally/schema.sql:9:  customer_id INTEGER REFERENCES customer(id)"),
        ("Let the database do it.", "sed -i 's/REFERENCES customer(id)/REFERENCES customer(id) ON DELETE CASCADE/' tally/schema.sql", ""),
    ], patch("tally/schema.sql", ["  customer_id INTEGER REFERENCES customer(id)"], ["  customer_id INTEGER REFERENCES customer(id) ON DELETE CASCADE"], "CREATE TABLE invoice ("),
    reason="test_delete failed: 2 invoices were left; SQLite ignores foreign keys unless the connection sets PRAGMA foreign_keys")

coding("acme__parcel-40",
    "Long address lines are cut in the middle of a letter\n\nprint_label() cuts lines at 35 bytes, which breaks letters such as ß and ü at the end.",
    LARGE, True, [
        ("Find the cut.", "grep -n \"35\" parcel/label.py", "parcel/label.py:27:    return line.encode()[:35].decode()"),
        ("Run the tests.", "pytest tests/test_label.py", "bash: line 1: pytest: command not found", 127),
        ("There is unittest.", "python -m unittest tests/test_label.py", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xc3 in position 34\nFAILED (errors=1)", 1),
        ("Drop the broken rest of a letter.", "sed -i \"s/.decode()/.decode(errors='ignore')/\" parcel/label.py", ""),
        ("Again.", "python -m unittest tests/test_label.py", "Ran 5 tests in 0.005s\n\nOK"),
    ], patch("parcel/label.py", ["    return line.encode()[:35].decode()"], ["    return line.encode()[:35].decode(errors='ignore')"], "def fit(line):"))


(HERE / "shop.json").write_text(json.dumps(SHOP, indent=1) + "\n")
(HERE / "coding" / "outcomes.json").write_text(json.dumps(OUTCOMES, indent=1) + "\n")
print(len(SHOP), "shop runs,", len(OUTCOMES), "coding runs,", len({r["task_id"] for r in SHOP} | {r["instance_id"] for r in OUTCOMES}), "tasks")
