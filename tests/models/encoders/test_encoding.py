import torch

from ..build import padded, tiny_model


def test_nodes_list_the_slots_of_each_token_in_turn():
    encoding = tiny_model(slots=3).encoder(*padded([[1, 2, 3], [4]]))
    assert encoding.nodes.shape == (2, 9, 4)
    for place in range(3):
        for slot in range(3):
            assert torch.equal(encoding.nodes[:, 3 * place + slot], encoding.internal[:, place, slot])
    assert encoding.nodes_mask.int().tolist() == [[1] * 9, [1] * 3 + [0] * 6]
