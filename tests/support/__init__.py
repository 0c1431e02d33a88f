"""What tests share: starting real jobs and finding what they leave."""
