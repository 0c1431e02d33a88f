"""Programs that write the text of datasets."""

from paddle._alias import alias

alias(__name__, {"fleet_programs": "DataGenerator MultiSlotDataGenerator MultiSlotStringDataGenerator"})
