-- Says that a turn is waited for or taken, or is over (see turns.py).
-- Params:  at: what it is a turn at; mine: the turn; who: takes it; alone: it is exclusive; state.
INSERT INTO turns (at, holder, who, alone, state)
SELECT {at:String}, {mine:UUID}, {who:String}, {alone:Bool}, {state:String}
